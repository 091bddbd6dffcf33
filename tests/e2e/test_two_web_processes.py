"""Two real web processes on one database."""

import threading
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
from knox.models import AuthToken

from gligabao.databases import name_of
from tests.factories import make_dataset
from tests.servers import environment, start_web
from training.models import TrainingJob

pytestmark = pytest.mark.django_db(databases="__all__", transaction=True)
NUM_CLIENTS = 10


@pytest.fixture
def two_webs(tmp_path):
    webs = [start_web(environment(), tmp_path / f"web{number}.log") for number in range(2)]
    yield webs
    for web in webs:
        web.stop()


def test_one_key_from_ten_clients_through_two_web_processes_is_one_job(
    two_webs, user_with_role, any_db
):
    make_dataset(db=any_db)
    _, token = AuthToken.objects.create(user_with_role("trainer"))
    together = threading.Barrier(NUM_CLIENTS, timeout=30)

    def start(number):
        with httpx.Client(base_url=two_webs[number % 2].url, timeout=30) as client:
            together.wait()
            return client.post(
                "/v1/gb/training/jobs",
                params={"db": name_of(any_db)},
                json={"dataset": "mine.jsonl", "num_train_steps": 50},
                headers={"Authorization": f"Bearer {token}", "Idempotency-Key": "k-1"},
            )

    with ThreadPoolExecutor(NUM_CLIENTS) as pool:
        answers = list(pool.map(start, range(NUM_CLIENTS)))

    assert sorted(answer.status_code for answer in answers) == [200] * 9 + [201]
    assert len({answer.json()["job_id"] for answer in answers}) == 1
    assert TrainingJob.objects.using(any_db).count() == 1


def test_l15_writers_and_readers_on_sqlite_lose_nothing(two_webs, user_with_role):
    """Four trainers post 200 reports each, one by one, while two readers list the jobs."""
    from tests.factories import make_job, token_of

    jobs = [make_job() for _ in range(4)]
    _, token = AuthToken.objects.create(user_with_role("viewer"))
    done = threading.Event()
    codes = []

    def write(job):
        headers = {"Authorization": f"Bearer {token_of(job)}"}
        with httpx.Client(base_url=two_webs[0].url, headers=headers, timeout=30) as client:
            for seq in range(200):
                report = {"seq": seq, "type": "progress", "step": seq, "loss": 1.0}
                answer = client.post(f"/v1/gb/training/jobs/{job.pk}/events", json=report)
                codes.append(answer.status_code)

    def read(number):
        headers = {"Authorization": f"Bearer {token}"}
        with httpx.Client(base_url=two_webs[number].url, headers=headers, timeout=30) as client:
            while not done.wait(0.05):
                codes.append(client.get("/v1/gb/training/jobs").status_code)

    readers = [threading.Thread(target=read, args=(number,)) for number in range(2)]
    for reader in readers:
        reader.start()
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, jobs))
    done.set()
    for reader in readers:
        reader.join()

    assert set(codes) == {200}
    assert [job.events.filter(source="trainer").count() for job in jobs] == [200] * 4
