"""A Ray cluster of this machine, for all tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import psutil
import pytest


class Nodes:
    """A cluster whose head, with the driver, has one place for an actor; others come and go."""

    def __init__(self, cluster: Any) -> None:
        self.cluster = cluster

    @contextmanager
    def another(self) -> Iterator[Any]:
        node = self.cluster.add_node(num_cpus=1, object_store_memory=80 * 2**20)
        try:
            yield node
        finally:
            if node in self.cluster.worker_nodes:
                self.cluster.remove_node(node, allow_graceful=False)


@pytest.fixture(scope="package")
def nodes() -> Iterator[Nodes]:
    import ray
    from ray.cluster_utils import Cluster

    head = {"num_cpus": 1, "object_store_memory": 80 * 2**20, "include_dashboard": False}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        cluster = Cluster(initialize_head=True, head_node_args=head)
    ray.init(address=cluster.address, log_to_driver=False)
    there = _processes_of_ray()
    assert there
    yield Nodes(cluster)
    there += _processes_of_ray()
    ray.shutdown()
    cluster.shutdown()
    _, left = psutil.wait_procs(there, timeout=60)
    assert not [each for each in left if each.status() != psutil.STATUS_ZOMBIE]


def _processes_of_ray() -> list[psutil.Process]:
    """Those below this process: others, such as keepers of sandboxes, go on to its end."""
    found = []
    for each in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):  # it has ended
            if any("/ray/" in part or part.startswith("ray::") for part in each.cmdline()):
                found.append(each)
    return found


@pytest.fixture(scope="module")
def sent_along(request: pytest.FixtureRequest) -> Iterator[None]:
    """What is defined in the module of the tests is pickled whole: workers cannot import it."""
    from ray import cloudpickle

    cloudpickle.register_pickle_by_value(request.module)
    yield
    cloudpickle.unregister_pickle_by_value(request.module)
