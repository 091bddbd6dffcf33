"""Token counts of dataset rows as the trainer will have them, without its libraries.

A base model's folder holds its tokenizer and its chat template; nothing else of it is read. The
rules are those of `trainer_image/trainer/rendering.py`, and tests hold both to the same counts.
"""

from training.chat_tokens.counter import ChatTokens, ExampleTokens, RowTokens
from training.chat_tokens.model_files import BadModelFiles

__all__ = ["BadModelFiles", "ChatTokens", "ExampleTokens", "RowTokens"]
