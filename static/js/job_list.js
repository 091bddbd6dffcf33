// The list of runs: comparing needs a choice of at least two and at most six.

import { live } from "./frame.js";

const MOST = 6;
const button = document.getElementById("compare-button");

function count() {
  const boxes = [...document.querySelectorAll('input[form="compare"]')];
  const number = boxes.filter((box) => box.checked).length;
  button.disabled = number < 2;
  for (const box of boxes) box.disabled = number >= MOST && !box.checked;
}

document.addEventListener("change", count);
live.onPage = count;
count();
