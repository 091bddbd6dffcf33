from __future__ import annotations

from training.providers.local_wrapper import count_memory_kills, write_once


def test_memory_kills_of_own_and_upper_groups_are_counted_for_version_2(tmp_path):
    (tmp_path / "own").write_text("0::/user/job\n")
    (tmp_path / "user" / "job").mkdir(parents=True)
    (tmp_path / "user" / "memory.events").write_text("low 0\noom 2\noom_kill 1\n")
    (tmp_path / "user" / "job" / "memory.events").write_text("oom_kill 2\noom_group_kill 9\n")

    assert count_memory_kills(tmp_path, tmp_path / "own") == 3


def test_memory_kills_are_counted_for_version_1(tmp_path):
    (tmp_path / "own").write_text("5:devices:/a\n4:cpu,memory:/box/of:mine\n0::/\n")
    group = tmp_path / "memory" / "box" / "of:mine"
    group.mkdir(parents=True)
    (group / "memory.oom_control").write_text("oom_kill_disable 0\nunder_oom 0\noom_kill 4\n")

    assert count_memory_kills(tmp_path, tmp_path / "own") == 4


def test_system_without_control_groups_has_no_evidence(tmp_path):
    assert count_memory_kills(tmp_path, tmp_path / "missing") == 0


def test_file_is_written_once_and_leaves_no_draft(tmp_path):
    assert write_once(tmp_path / "run.json", {"run_id": "first"})
    assert not write_once(tmp_path / "run.json", {"run_id": "second"})

    assert (tmp_path / "run.json").read_text() == '{"run_id": "first"}'
    assert [path.name for path in tmp_path.iterdir()] == ["run.json"]
