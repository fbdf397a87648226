"""What is said of file systems on which overwriting does not reach the blocks."""

from __future__ import annotations

import pytest

from erasable import store
from erasable.store import _disk

TABLE = r"""
27 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
30 27 0:30 / /tmp rw - tmpfs tmpfs rw,size=1g
31 27 254:1 / /journal rw - ext4 /dev/vdb rw,data=journal
32 27 254:2 / /default rw - ext4 /dev/vdc rw
33 27 0:33 /sub /b\040trfs rw - btrfs /dev/vdd rw,subvol=/sub
34 27 0:34 / /b\040trfs/inner rw - xfs /dev/vde rw
35 27 0:35 / /over rw - overlay overlay rw,lowerdir=/a,upperdir=/b
36 27 0:36 / /far rw - nfs4 host:/x rw
37 27 0:37 / /pool rw - zfs pool rw
38 27 0:38 / /phone rw - f2fs /dev/vdf rw
39 27 0:39 / /sshfs rw - fuse.sshfs host: rw
40 27 0:40 / /twice rw - btrfs /dev/vdg rw
41 40 0:41 / /twice rw - xfs /dev/vdh rw
42 27 254:3 / /old rw - ext3 /dev/vdi rw,data=journal
43 27 254:99 / /root rw - ext4 /dev/root rw
not a line
"""


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("/m", None),
        ("/tmp/m", None),
        ("/journal/m", "data=journal"),
        ("/old/m", "data=journal"),
        ("/default/m", "data=journal"),
        ("/b trfs/m", "btrfs writes to new blocks"),
        ("/b trfs/inner/m", None),
        ("/b trfs2/m", None),
        ("/over/a/b/m", "overlay"),
        ("/far/m", "nfs4 leaves the writing"),
        ("/pool/m", "zfs"),
        ("/phone/m", "f2fs"),
        ("/sshfs/m", "fuse leaves the writing"),
        ("/root/m", "data=journal"),
        ("/twice/m", None),
    ],
)
def test_the_file_system_of_a_path_decides(monkeypatch, path, said):
    files = {_disk._MOUNTS: TABLE, "/proc/fs/ext4/vdc/options": "rw\ndata=journal\n"}
    files["/proc/fs/ext4/254:99/options"] = "data=journal"  # by number, where the name says nothing
    monkeypatch.setattr(_disk, "_read", lambda name: files.get(name, ""))
    doubt = store.doubt_about_blocks(path)
    if said is None:
        assert doubt is None
        assert "not known" in store.in_words(doubt)
        return
    assert said in str(doubt)
    assert store.in_words(None, doubt, doubt) == str(doubt)
    assert path in doubt.about(path)
    assert said in doubt.about(path)
    assert "Encrypt" in doubt.about(path)


def test_a_machine_without_a_table_of_mounts_says_nothing(monkeypatch):
    monkeypatch.setattr(_disk, "_read", lambda name: "")
    assert store.doubt_about_blocks("/m") is None
    monkeypatch.undo()
    assert _disk._read("/nowhere/at/all") == ""
