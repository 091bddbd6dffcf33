// The form of a new run: shows what an empty field stands for, and how many epochs the steps are.

const form = document.getElementById("new-run");
const defaults = JSON.parse(document.getElementById("defaults").textContent);
const epochs = document.getElementById("epochs");
const number = new Intl.NumberFormat(document.documentElement.lang, { maximumFractionDigits: 1 });

function show() {
  const own = defaults[form.elements.base_model.value] ?? {};
  for (const option of form.elements.method.options) option.disabled = !(option.value in own);
  if (form.elements.method.selectedOptions[0]?.disabled) form.elements.method.value = Object.keys(own)[0];
  const usual = own[form.elements.method.value] ?? {};
  for (const field of form.querySelectorAll('[name^="hyperparams."]')) {
    const value = usual[field.name.slice("hyperparams.".length)];
    if (value !== undefined && field.nodeName === "INPUT") field.placeholder = value;
  }
  showEpochs();
}

function showEpochs() {
  const rows = Number(form.elements.dataset.selectedOptions[0]?.dataset.rows);
  const steps = Number(form.elements.num_train_steps.value);
  const examples = steps * valueOf("batch_size") * valueOf("gradient_accumulation_steps");
  epochs.hidden = !(rows > 0 && examples > 0);
  epochs.textContent = epochs.dataset.text
    .replace("{steps}", number.format(steps))
    .replace("{epochs}", number.format(examples / rows))
    .replace("{rows}", number.format(rows));
}

function valueOf(name) {
  const field = form.elements[`hyperparams.${name}`];
  return Number(field.value || field.placeholder);
}

form.addEventListener("input", show);
show();
document.getElementById("problems")?.focus();
