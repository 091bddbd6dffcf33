"""Names of channels, and who may read them."""

import pytest

from training.feed.channels import ChannelManager, all_channel, run_channel


def test_a_channel_carries_the_outside_name_of_its_database():
    assert run_channel("default", 3) == "run-standard-3"
    assert all_channel("pg") == "all-pg"


@pytest.mark.parametrize("channel", ["run-standard-3", "all-pg"])
def test_a_viewer_reads_our_channels(user_with_role, channel):
    assert ChannelManager().can_read_channel(user_with_role("viewer"), channel)


@pytest.mark.parametrize("channel", ["", "run-3", "deploy", "run-standard-x", "all-a-b"])
def test_nobody_reads_other_channels(user_with_role, channel):
    assert not ChannelManager().can_read_channel(user_with_role("admin"), channel)


def test_without_a_user_nothing_is_read():
    assert not ChannelManager().can_read_channel(None, "all-standard")
