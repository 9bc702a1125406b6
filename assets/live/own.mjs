// A file of one's own: it goes from this page into the engine's memory and nowhere else, and is given again after Stop.
import { megabytes } from "./files.js";
import { made } from "./dom.js";

export class OwnFile {
  // `card`: the manifest's dataset "own"; `does`: ask, fail, wait, fill, prepare of the page.
  constructor(place, card, does) {
    Object.assign(this, { place, card, does, file: null, roles: {}, header: null, found: null, isFilled: false });
    if (!card) return;
    const input = made("input", { type: "file", id: "own-file", accept: card.forms.flatMap(({ endings }) => endings).join(","), onchange: () => this.choose(input.files[0]) });
    this.said = made("div");
    place.replaceChildren(made("label", { htmlFor: "own-file", textContent: "Your file, read in this page alone" }), input,
      made("p", { className: "small", textContent: `${card.forms.map(({ title }) => title).join("; ")}. At most ${megabytes(card.most_bytes)}.` }), this.said);
  }

  show(isOwn) {
    this.place.hidden = !isOwn;
    this.isOwn = isOwn;
  }

  dataset() {
    return this.isOwn ? this.found?.dataset : undefined;
  }

  forget() { // the engine's memory is gone; the file is still here
    this.found = null;
  }

  choose(file) {
    Object.assign(this, { file: null, roles: {}, header: null, found: null, isFilled: false });
    this.said.replaceChildren();
    if (!file) return;
    const { forms, most_bytes: most } = this.card, endings = forms.flatMap((form) => form.endings);
    const refuse = (sentence) => this.does.fail({ kind: "wrong-input", sentence });
    if (file.size > most) return refuse(`${file.name} has ${megabytes(file.size)}: this page takes at most ${megabytes(most)}; the installed app takes more.`);
    if (!endings.some((ending) => file.name.toLowerCase().endsWith(ending))) return refuse(`${file.name} must end in ${endings.join(", ")}.`);
    this.file = file;
    this.does.prepare();
  }

  // Whether the settings can be checked: there is a file, and the engine has read it.
  async isReady() {
    if (!this.isOwn || this.found) return true;
    if (!this.file) {
      this.does.wait("Choose a file of yours, or other data.");
      return false;
    }
    const bytes = await this.file.arrayBuffer().catch(() => null);
    if (!bytes) {
      this.does.fail({ kind: "data-missing", sentence: `${this.file.name} can no longer be read: choose it again.` });
      return false;
    }
    this.found = await this.does.ask("own", { name: this.file.name, bytes, roles: this.roles, header: this.header }, null, [bytes]);
    this.draw();
    if (!this.isFilled) this.does.fill(this.found.settings);
    this.isFilled = true;
    return true;
  }

  draw() {
    const { columns, public: known, assumed = [] } = this.found;
    const again = (role, value) => {
      if (value) this.roles[role] = value;
      else delete this.roles[role];
      Object.assign(this, { found: null, isFilled: false });
      this.does.prepare();
    };
    const roles = this.card.roles.filter(() => columns?.length).map(({ name, title }) => {
      const now = this.roles[name] ?? this.found.roles?.[name] ?? "";
      const nodes = ["", ...columns].map((column) => made("option", { value: column, textContent: column || "(as found)", selected: column === now }));
      return made("div", { className: "th-field" }, made("label", { htmlFor: `role-${name}`, textContent: title ?? name }), made("select", { id: `role-${name}`, onchange: ({ target }) => again(name, target.value) }, ...nodes));
    });
    this.said.replaceChildren(made("div", { className: "th-row" }, ...roles), made("dl", { className: "small" }, ...known.flatMap(([name, value]) => [made("dt", { textContent: name }), made("dd", { textContent: String(value) })])), made("ul", { className: "small" }, ...assumed.map((sentence) => made("li", { textContent: sentence }))));
  }
}
