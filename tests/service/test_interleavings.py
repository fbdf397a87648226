"""Every interleaving of what can happen to two requests, up to a bound, and a crash at every step of each."""

from __future__ import annotations

from tests.service.world import ACTIONS, Said, World, finished, fresh_disk
from tests.store.simulated import SimulatedDisk

DEPTH = 5
Moment = tuple[SimulatedDisk, Said]


def key(disk: SimulatedDisk, *more: object) -> object:
    return tuple(sorted(disk.named().items())), *more


def run(script: tuple[str, ...]) -> tuple[World, list[Moment]]:
    """The world after some actions, and every moment of the last of them."""
    disk, moments = fresh_disk(), []
    world = World(disk)
    for action in script[:-1]:
        world = taken(world, action)
    disk.after_step = lambda now: moments.append((now.copy(), world.said))
    after = taken(world, script[-1])
    disk.after_step = None
    return after, moments


def taken(world: World, action: str) -> World:
    if action == "restart":
        return World(world.disk, world.said)
    ACTIONS[action](world)
    return world


def test_every_interleaving_with_a_kill_at_every_step_keeps_the_laws():
    seen, killed = {key(fresh_disk())}, set()
    frontier: list[tuple[str, ...]] = [()]
    for _ in range(DEPTH):
        following = []
        for script in frontier:
            for action in (*ACTIONS, "restart"):
                world, moments = run((*script, action))
                state = key(world.disk, world.said, world.memory())
                if state in seen:
                    continue
                seen.add(state)
                following.append((*script, action))
                for disk, said in [*moments, (world.disk.copy(), world.said)]:
                    if (moment := key(disk, said)) not in killed:
                        killed.add(moment)
                        finished(disk, said)
        frontier = following
    assert len(seen) > 100
    assert len(killed) > 400
