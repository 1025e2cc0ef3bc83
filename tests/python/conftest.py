"""What the tests of the package psd share: shards, workers for them, and a second process."""

import os
import sys

import pytest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "system"))

from wire.shards import CLUSTER, Shards  # noqa: E402

import psd  # noqa: E402

SGD = "sgd:learning_rate=1"


@pytest.fixture
def one_shard():
    with Shards(1) as shards:
        yield shards


@pytest.fixture
def two_shards():
    with Shards(2) as shards:
        yield shards


@pytest.fixture
def worker(one_shard):
    """A worker of one shard, alone in its job."""
    with psd.connect(one_shard.address, cluster=CLUSTER, quiet=True, timeout=20) as client:
        yield client


@pytest.fixture
def connected():
    """connected(shards, **options): a worker, closed at the end."""
    clients = []

    def connect(shards, **options):
        clients.append(psd.connect(shards.address, **{"cluster": CLUSTER, "quiet": True, "timeout": 20, **options}))
        return clients[-1]

    yield connect
    for client in clients:
        client.close()
