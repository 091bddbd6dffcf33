"""Names, versions and the datasets directory: what jobs train on stays what it was."""

import hashlib
import io
import os
import threading

import pytest
from django.db import connections

from datasets import services
from datasets.models import Dataset, DatasetVersion
from datasets.services import Outcome
from gligabao.errors import DatasetDamaged, InvalidRequest, TooLarge
from tests.datasets.uploads import GOOD

BETTER = (
    GOOD
    + b'{"messages": [{"role": "user", "content": "x"}, {"role": "assistant", "content": "y"}]}\n'
)
ALL_DATABASES = pytest.mark.django_db(databases=["default", "second"])


def digest(content):
    return hashlib.sha256(content).hexdigest()


def save(content=GOOD, filename="mine.jsonl", db="default", **texts):
    return services.save_upload(io.BytesIO(content), filename=filename, db=db, **texts)


def make_folder(root, name, manifest='file = "team.jsonl"\n', content=GOOD, file="team.jsonl"):
    folder = root / name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "dataset.toml").write_text(manifest)
    if content is not None:
        (folder / file).write_bytes(content)
    return folder


@pytest.fixture
def root(settings):
    return settings.DATASETS_DIR


@pytest.mark.django_db(databases="__all__")
@pytest.mark.usefixtures("dataset_folders")
class TestOnEachDatabase:
    def test_a_name_keeps_all_its_contents(self, any_db):
        first, created = save(db=any_db)
        second, changed = save(BETTER, db=any_db)
        _, same = save(BETTER, db=any_db)

        assert (created, changed, same) == (Outcome.CREATED, Outcome.CHANGED, Outcome.SAME)
        assert first.pk == second.pk
        assert services.open_for_job("mine.jsonl", db=any_db).path.read_bytes() == BETTER
        old = services.open_for_job("mine.jsonl", db=any_db, sha256=digest(GOOD))
        assert old.path.read_bytes() == GOOD

    def test_report_with_odd_characters_can_be_stored(self, any_db):
        text = b'{"text": "a\\u0000b \\ud83d\\ude42 <|im_end|>"}\n'

        dataset, _ = save(text, db=any_db)

        dataset.refresh_from_db(using=any_db)
        assert {"nul", "control_tokens"} <= {w["code"] for w in dataset.report["warnings"]}

    def test_sync_finds_folders(self, any_db, settings):
        root = (
            settings.DATASETS_DIR
            if any_db == "default"
            else settings.DATA_DIR / "datasets_training_pg"
        )
        make_folder(root, "a")

        result = services.sync_from_directory(any_db)

        assert result.created == ["gligabao_facts.jsonl", "team.jsonl"]
        assert services.open_for_job("team.jsonl", db=any_db).num_records == 2


@pytest.mark.django_db
def test_unknown_name_says_what_to_do():
    with pytest.raises(InvalidRequest, match=r"No dataset 'no\.jsonl'\. Upload it first\."):
        services.open_for_job("no.jsonl", db="default")


@pytest.mark.django_db
@pytest.mark.parametrize("name", ["../x.jsonl", "x.json", "", "a\nb.jsonl", "\udcff.jsonl"])
def test_job_refuses_the_names_that_an_upload_refuses(name):
    with pytest.raises(InvalidRequest) as caught:
        services.open_for_job(name, db="default")

    assert caught.value.code == "bad_name"


@pytest.mark.django_db
@pytest.mark.parametrize("where", ["datasets_training", "dataset_versions"])
@pytest.mark.parametrize("harm", ["truncate", "touch", "remove"])
def test_damaged_file_is_not_trained_on(dataset_folders, where, harm):
    save()
    (path,) = (dataset_folders / where).rglob("*.jsonl")
    if harm == "truncate":
        os.truncate(path, 10)
    elif harm == "touch":
        path.touch()
    else:
        path.unlink()

    with pytest.raises(
        DatasetDamaged, match=r"(does not match its record|is missing).*[Uu]pload it again"
    ):
        services.open_for_job("mine.jsonl", db="default")
    save()

    assert services.open_for_job("mine.jsonl", db="default").path.read_bytes() == GOOD


@pytest.mark.django_db
def test_editing_the_folder_does_not_change_what_a_job_kept(dataset_folders):
    save()
    (data,) = dataset_folders.glob("datasets_training/*/data.jsonl")
    with data.open("ab") as file:
        file.write(b"more\n")

    assert services.open_version(digest(GOOD), db="default").path.read_bytes() == GOOD


@pytest.mark.django_db
def test_too_large_or_invalid_files_leave_nothing(stored_files):
    with pytest.raises(TooLarge):
        services.save_upload(io.BytesIO(GOOD), filename="a.jsonl", db="default", max_bytes=50)
    with pytest.raises(InvalidRequest):
        save(b"{")

    assert stored_files() == []
    assert not Dataset.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_uploads_of_one_name_at_once_take_turns(dataset_folders):
    contents = [GOOD + b"\n" * number for number in range(8)]
    start = threading.Barrier(len(contents))
    failures = []

    def upload(content):
        start.wait()
        try:
            save(content)
        except Exception as error:
            failures.append(error)
        finally:
            connections.close_all()

    threads = [threading.Thread(target=upload, args=(content,)) for content in contents]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert failures == []
    assert DatasetVersion.objects.count() == len(contents)
    row = Dataset.objects.get()
    opened = services.open_for_job("mine.jsonl", db="default")
    (data,) = dataset_folders.glob("datasets_training/upload-*/data.jsonl")
    assert digest(data.read_bytes()) == digest(opened.path.read_bytes()) == row.sha256
    assert not list(dataset_folders.glob("datasets_training/.upload-*"))


@pytest.mark.django_db
class TestSync:
    def test_manifest_with_an_unknown_key_is_invalid_with_the_reason(self, root):
        make_folder(root, "a", manifest='file = "team.jsonl"\ncolour = "red"\n')

        result = services.sync_from_directory("default")

        assert result.invalid == ["a.jsonl"]
        row = Dataset.objects.get(filename="a.jsonl")
        assert services.live_status(row, db="default") == "invalid"
        assert "unknown key 'colour'" in row.report["error"]

    def test_mended_manifest_gets_its_own_name(self, root):
        make_folder(root, "a", manifest="colour = 1")
        services.sync_from_directory("default")
        make_folder(root, "a", manifest='file = "team.jsonl"\nname = "Team"\n')

        services.sync_from_directory("default")

        row = Dataset.objects.exclude(filename="gligabao_facts.jsonl").get()
        assert (row.filename, row.name, row.status) == ("team.jsonl", "Team", "ready")

    @pytest.mark.parametrize(
        "manifest",
        [
            "",
            "not toml",
            "file = 3",
            'file = "../team.jsonl"',
            'file = "team.txt"',
            'file = "team.jsonl"\nname = "a\\u001bb"',
            'file = "team.jsonl"\ndescription = "a\\u0000b"',
            "a = " + "[" * 5000,
            "x" * 70_000,
        ],
    )
    def test_unusable_manifest_keeps_nothing_from_working(self, root, manifest):
        make_folder(root, "a", manifest=manifest)
        make_folder(root, "b")

        result = services.sync_from_directory("default")

        assert result.invalid == ["a.jsonl"]
        assert "team.jsonl" in result.created

    def test_invalid_file_is_listed_with_its_report(self, root, case):
        make_folder(root, "a", content=case("D19.jsonl"))

        services.sync_from_directory("default")

        row = Dataset.objects.get(filename="team.jsonl")
        assert (row.status, row.report["error_count"]) == ("invalid", 5)
        with pytest.raises(InvalidRequest, match="is not valid: 5 problems"):
            services.open_for_job("team.jsonl", db="default")

    def test_changed_file_becomes_a_new_version_and_the_old_one_stays(self, root):
        folder = make_folder(root, "a")
        services.sync_from_directory("default")
        (folder / "team.jsonl").write_bytes(BETTER)
        with pytest.raises(DatasetDamaged):
            services.open_for_job("team.jsonl", db="default")

        result = services.sync_from_directory("default")

        assert result.changed == ["team.jsonl"]
        assert services.open_for_job("team.jsonl", db="default").sha256 == digest(BETTER)
        assert services.open_version(digest(GOOD), db="default").path.read_bytes() == GOOD

    def test_file_that_is_gone_is_missing_until_it_is_back(self, root):
        folder = make_folder(root, "a")
        services.sync_from_directory("default")
        (folder / "team.jsonl").rename(folder / "away")

        gone = services.sync_from_directory("default")
        stored = Dataset.objects.get(filename="team.jsonl").status
        (folder / "away").rename(folder / "team.jsonl")
        back = services.sync_from_directory("default")

        assert (gone.missing, stored) == (["team.jsonl"], "missing")
        assert "team.jsonl" in back.unchanged
        assert services.open_for_job("team.jsonl", db="default")

    def test_folder_that_is_gone_is_missing(self, root):
        folder = make_folder(root, "a")
        services.sync_from_directory("default")
        for path in folder.iterdir():
            path.unlink()
        folder.rmdir()

        assert services.sync_from_directory("default").missing == ["team.jsonl"]

    def test_second_sync_changes_nothing(self, root):
        make_folder(root, "a")
        save()
        services.sync_from_directory("default")
        before = list(Dataset.objects.values())

        result = services.sync_from_directory("default")

        assert sorted(result.unchanged) == ["gligabao_facts.jsonl", "mine.jsonl", "team.jsonl"]
        assert list(Dataset.objects.values()) == before

    def test_two_folders_cannot_share_a_name(self, root):
        make_folder(root, "a")
        make_folder(root, "b", content=BETTER)

        result = services.sync_from_directory("default")

        assert result.problems == ["Folder 'b': The name 'team.jsonl' belongs to the folder 'a'."]
        assert Dataset.objects.get(filename="team.jsonl").num_records == 2

    def test_upload_takes_a_name_over_from_a_folder(self, root):
        folder = make_folder(root, "a")
        services.sync_from_directory("default")

        save(BETTER, filename="team.jsonl")
        result = services.sync_from_directory("default")

        assert (folder / "team.jsonl").read_bytes() == GOOD
        assert services.open_for_job("team.jsonl", db="default").sha256 == digest(BETTER)
        assert len(result.problems) == 1

    def test_upload_survives_a_lost_table(self):
        save(name="Doors")
        Dataset.objects.all().delete()

        (filename,) = [
            name for name in services.sync_from_directory("default").created if "upload" in name
        ]
        dataset, _ = save()

        assert filename.startswith("upload-")
        assert (dataset.filename, dataset.name) == ("mine.jsonl", "Doors")
        assert Dataset.objects.filter(filename=filename).count() == 0

    def test_lost_versions_are_made_again(self, root, settings):
        make_folder(root, "a")
        services.sync_from_directory("default")
        for path in settings.DATASET_VERSIONS_DIR.iterdir():
            path.unlink()

        services.sync_from_directory("default")

        assert services.open_for_job("team.jsonl", db="default").path.read_bytes() == GOOD


@pytest.mark.django_db
def test_sample_is_the_default_and_registers_itself():
    assert services.default_dataset("default") == "gligabao_facts.jsonl"
    assert services.open_for_job("gligabao_facts.jsonl", db="default").format == "chat"


@pytest.mark.django_db
def test_touched_sample_is_read_again(monkeypatch, tmp_path):
    from datasets.services import folders

    copy = tmp_path / "sample"
    copy.mkdir()
    for path in folders.SAMPLE_PATH.iterdir():
        (copy / path.name).write_bytes(path.read_bytes())
    monkeypatch.setattr(folders, "SAMPLE_PATH", copy)
    services.default_dataset("default")
    (copy / "gligabao_facts.jsonl").touch()

    name = services.default_dataset("default")

    assert services.open_for_job(name, db="default")


@ALL_DATABASES
def test_databases_have_folders_of_their_own(dataset_folders):
    save(db="default")
    save(BETTER, db="second")

    assert len(list(dataset_folders.glob("datasets_training/upload-*"))) == 1
    assert len(list(dataset_folders.glob("datasets_training_second/upload-*"))) == 1
    assert services.open_for_job("mine.jsonl", db="default").sha256 == digest(GOOD)
    assert services.open_for_job("mine.jsonl", db="second").sha256 == digest(BETTER)


@ALL_DATABASES
def test_databases_share_the_bytes_of_one_content(dataset_folders):
    save(db="default")
    save(db="second")

    assert len(list(dataset_folders.glob("dataset_versions/*"))) == 1
    assert services.open_for_job("mine.jsonl", db="default")
    assert services.open_for_job("mine.jsonl", db="second")
