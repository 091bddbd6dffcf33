"""The trainer's package on the path: both sides meet here. Only its light modules."""

import sys

from tests.trainer.jobs import TRAINER_IMAGE

sys.path.append(str(TRAINER_IMAGE))
