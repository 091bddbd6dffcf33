// Runs before the page is painted, so that a chosen theme never flashes in the other one.
const chosen = localStorage.getItem("theme");
if (chosen) document.documentElement.dataset.theme = chosen;
