"""The extra dask: a cluster of two workers gives the state of one process."""

import numpy as np
import pytest

pytest.importorskip("distributed", reason="Dask is not installed")

from erasable import ErasableClassifier

# Warnings of Dask about its own clusters and of what it is made of, while these come and go.
pytestmark = pytest.mark.filterwarnings("ignore")


def test_a_cluster_gives_the_state_of_one_process(tmp_path):
    import dask.dataframe as dd
    import distributed
    import pandas as pd

    X = np.random.default_rng(0).integers(-64, 65, (300, 3)) / 16
    y = np.where(X[:, 0] > 0, "yes", "no")
    alone = ErasableClassifier(threshold=0.05).fit(X, y)
    frame = dd.from_pandas(pd.DataFrame(X, columns=list("abc")), npartitions=3)
    frame = frame.to_dask_array(lengths=True)
    how = {"n_workers": 2, "threads_per_worker": 1, "processes": False, "dashboard_address": None}
    with distributed.LocalCluster(**how, silence_logs=50) as cluster, distributed.Client(cluster) as client:
        found = ErasableClassifier(threshold=0.05, engine="dask").fit(X, y)
        shared = ErasableClassifier(threshold=0.05, engine="dask").fit(frame, y)
        assert client.status == "running"
    assert found.state_digest() == shared.state_digest() == alone.state_digest()
