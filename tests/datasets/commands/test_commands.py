"""import_dataset, check_dataset and sync_datasets."""

import json
import subprocess
import sys

import pytest
from django.core.management import CommandError, call_command

from datasets.models import Dataset
from tests.datasets.uploads import CASES, GOOD


def run(capsys, *arguments):
    call_command(*arguments)
    return capsys.readouterr().out


@pytest.mark.django_db
class TestImport:
    def test_stores_the_file_under_its_name(self, capsys):
        out = run(capsys, "import_dataset", str(CASES / "D16.jsonl"), "--name", "Doors")

        assert "D16.jsonl: created, 2 rows, format sharegpt" in out
        assert Dataset.objects.get().name == "Doors"

    def test_prints_the_row_as_json(self, capsys):
        out = run(capsys, "import_dataset", str(CASES / "D16.jsonl"), "--json")

        assert json.loads(out)["filename"] == "D16.jsonl"

    def test_refused_file_stores_nothing_and_prints_the_report(self, capsys):
        with pytest.raises(CommandError, match=r"Line 3: .* may be cut off"):
            run(capsys, "import_dataset", str(CASES / "D31.jsonl"), "--json")

        assert json.loads(capsys.readouterr().out)["errors"][0]["line"] == 3
        assert not Dataset.objects.exists()

    @pytest.mark.parametrize("path", ["no/such.jsonl", "."])
    def test_unreadable_file_is_named(self, path):
        with pytest.raises(CommandError, match=path.replace(".", r"\.")):
            call_command("import_dataset", path)

    def test_bad_name_is_refused(self, tmp_path):
        (tmp_path / "a.txt").write_bytes(GOOD)

        with pytest.raises(CommandError, match=r"does not end in \.jsonl"):
            call_command("import_dataset", str(tmp_path / "a.txt"))

    def test_unknown_database_is_named(self):
        with pytest.raises(CommandError, match="nowhere"):
            call_command("import_dataset", str(CASES / "D16.jsonl"), "--db", "nowhere")


@pytest.mark.django_db(databases=["default", "second"])
def test_import_goes_to_the_database_that_is_named(capsys):
    run(capsys, "import_dataset", str(CASES / "D16.jsonl"), "--db", "second")

    assert not Dataset.objects.using("default").exists()
    assert Dataset.objects.using("second").count() == 1


class TestCheck:
    def test_valid_file_is_said_to_be_so(self, capsys):
        assert "Valid: 3 rows, format chat." in run(
            capsys, "check_dataset", str(CASES / "D04.jsonl")
        )

    def test_report_is_the_one_of_an_upload(self, capsys):
        with pytest.raises(CommandError) as caught:
            run(capsys, "check_dataset", str(CASES / "D19.jsonl"), "--json")

        report = json.loads(capsys.readouterr().out)
        assert caught.value.returncode == 1
        assert [error["line"] for error in report["errors"]] == [2, 3, 4, 5, 6]

    def test_control_characters_do_not_reach_the_terminal(self, capsys, tmp_path):
        path = tmp_path / "a.jsonl"
        path.write_text('{"\\u001b[2J": 1}\n{"messages": [{"role": "\\u202e", "content": "x"}]}')

        with pytest.raises(CommandError):
            run(capsys, "check_dataset", str(path))

        out = capsys.readouterr().out
        assert "x1b[2J" in out
        assert not {"\x1b", "\u202e"} & set(out)

    def test_large_file_has_a_bar_on_standard_error_only(self, capsys, tmp_path):
        path = tmp_path / "a.jsonl"
        path.write_bytes(b'{"text": "%s"}\n' % (b"x" * 500_000) * 80)

        call_command("check_dataset", str(path), "--json")

        out, err = capsys.readouterr()
        assert json.loads(out)["num_records"] == 80
        assert "Reading" in err

    def test_needs_no_database_and_exits_with_1(self, tmp_path, settings):
        result = subprocess.run(
            [sys.executable, "manage.py", "check_dataset", str(CASES / "D19.jsonl"), "--json"],
            cwd=settings.BASE_DIR,
            env={"PATH": "/usr/bin:/bin", "GLIGABAO_DATA_DIR": str(tmp_path / "data")},
            capture_output=True,
            check=False,
        )

        assert result.returncode == 1
        assert json.loads(result.stdout)["error_count"] == 5


@pytest.mark.django_db
class TestSync:
    def test_prints_what_became_of_each_folder(self, capsys, settings):
        folder = settings.DATASETS_DIR / "bad"
        folder.mkdir(parents=True)
        (folder / "dataset.toml").write_text('kind = "x"')

        out = run(capsys, "sync_datasets")

        assert out == "created: gligabao_facts.jsonl\ninvalid: bad.jsonl\n"

    def test_prints_json(self, capsys):
        assert json.loads(run(capsys, "sync_datasets", "--json")) == {
            "created": ["gligabao_facts.jsonl"],
            "changed": [],
            "unchanged": [],
            "invalid": [],
            "missing": [],
            "problems": [],
        }
