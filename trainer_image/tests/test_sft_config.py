"""What TRL's trainer is told, for a CPU and, as far as it can be seen here, for a GPU."""

import pytest
import torch
from in_process import CPU, make_spec
from transformers.training_args import OptimizerNames

from trainer import sft_config
from trainer.device import Device
from trainer.sft_config import MANY_TRAINED_WEIGHTS, build_config, choose_optimizer

GPU = Device("cuda", torch.bfloat16, "a test")
BF16_CPU = Device("cpu", torch.bfloat16, "a test")
DEVICES = pytest.mark.parametrize("device", [CPU, BF16_CPU, GPU], ids=["cpu", "cpu-bf16", "gpu"])


@pytest.fixture(autouse=True)
def gpu_with_bf16(monkeypatch):
    """transformers refuses bf16 where it sees no GPU that has it."""
    monkeypatch.setattr("transformers.training_args.is_torch_bf16_gpu_available", lambda: True)


@DEVICES
@pytest.mark.parametrize("method", ["lora", "qlora", "full"])
def test_trap_checkpointing_is_never_reentrant(tmp_path, device, method):
    config = build_config(make_spec(tmp_path, method=method), device)

    assert config.gradient_checkpointing == (device.name == "cuda")
    if config.gradient_checkpointing:
        assert config.gradient_checkpointing_kwargs == {"use_reentrant": False}


@DEVICES
def test_trap_a_loss_that_is_no_number_is_not_filtered(tmp_path, device):
    assert build_config(make_spec(tmp_path), device).logging_nan_inf_filter is False


@DEVICES
def test_trap_the_trainer_neither_masks_nor_cuts_on_its_own(tmp_path, device):
    config = build_config(make_spec(tmp_path), device)

    assert not config.assistant_only_loss
    assert not config.completion_only_loss
    assert config.max_length is None
    assert config.use_liger_kernel is False  # it would replace the head that the loss needs


@DEVICES
@pytest.mark.parametrize("method", ["lora", "qlora", "full"])
def test_bfloat16_is_computed_with_where_the_device_has_it(tmp_path, device, method):
    config = build_config(make_spec(tmp_path, method=method), device)

    assert config.bf16 == (device.dtype == torch.bfloat16)
    assert not config.fp16


def test_gpu_gets_pinned_memory_and_no_cpu_loop(tmp_path):
    config = build_config(make_spec(tmp_path), GPU)

    assert not config.use_cpu
    assert config.dataloader_pin_memory


@DEVICES
def test_adapters_are_trained_with_exact_fused_adamw(tmp_path, device):
    config = build_config(make_spec(tmp_path), device, num_trainable=120_000_000)

    assert config.optim == OptimizerNames.ADAMW_TORCH_FUSED


def test_very_many_weights_are_trained_with_eight_bit_states_on_a_gpu(monkeypatch):
    many = MANY_TRAINED_WEIGHTS + 1

    monkeypatch.setattr(sft_config, "find_spec", lambda name: name)
    assert choose_optimizer(GPU, many) == "adamw_8bit"
    assert choose_optimizer(CPU, many) == "adamw_torch_fused"
    monkeypatch.setattr(sft_config, "find_spec", lambda name: None)
    assert choose_optimizer(GPU, many) == "adamw_torch_fused"


def test_packing_fills_rows_of_the_length_in_the_spec(tmp_path):
    spec = make_spec(tmp_path, packing=True, max_length=192)

    packed = build_config(spec, CPU, is_packed=True)
    refused = build_config(spec, CPU, is_packed=False)

    assert (packed.packing, packed.packing_strategy, packed.max_length) == (True, "bfd", 192)
    assert (refused.packing, refused.max_length) == (False, None)


def test_float32_of_the_adapter_uses_tensor_cores_on_a_gpu_only():
    before = torch.get_float32_matmul_precision()
    try:
        sft_config.set_up_backend(CPU)
        assert torch.get_float32_matmul_precision() == before
        sft_config.set_up_backend(GPU)
        assert torch.get_float32_matmul_precision() == "high"
    finally:
        torch.set_float32_matmul_precision(before)
