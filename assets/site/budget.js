// The lists of labels and numbers of tasks beside the ε slider: a choice feeds the element with its table. Lists that are read
// from the data have the table of the task-wise public lists, and other words.
((documents, replays) => {
  const place = document.getElementById("drag"), form = document.getElementById("settings");
  const chosen = (name) => form.querySelector(`input[name=${name}]:checked`).value;
  const feed = () => {
    const one = documents[`${chosen("labels")}-${chosen("tasks")}`];
    document.getElementById("meaning").textContent = one.meaning;
    place.dispatchEvent(new CustomEvent("feed", { detail: { ...one.data, replay: replays[one.replay] } }));
  };
  form.addEventListener("change", feed);
  if (chosen("labels") !== "prior-const" || chosen("tasks") !== "5") feed(); // a browser may restore choices with the page
})(DOCUMENTS, REPLAYS);
