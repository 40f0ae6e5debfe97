import { type Fault, faultsOf } from "../live/faults.ts";
import { messageOf } from "./model.ts";

export const find = <Found extends HTMLElement = HTMLElement>(selector: string): Found =>
  document.querySelector<Found>(selector)!;

export function element<Name extends keyof HTMLElementTagNameMap>(
  name: Name,
  properties: object,
  ...children: (Node | string)[]
) {
  const created = Object.assign(document.createElement(name), properties);
  created.append(...children);
  return created;
}

// Each button with `data-opens` opens the dialog with this id.
for (const button of document.querySelectorAll<HTMLElement>("[data-opens]"))
  button.addEventListener("click", () => {
    button.closest("dialog")?.close();
    find<HTMLDialogElement>(`#${button.dataset.opens}`).showModal();
  });
for (const button of document.querySelectorAll("[data-closes]"))
  button.addEventListener("click", () => button.closest("dialog")!.close());

type Values = Readonly<Record<string, string>>;

/** Sends the form with `send`. Each error is shown beside its field, the others at the end. The first invalid field gets the focus. */
export function handle(form: HTMLFormElement, send: (values: Values) => Promise<unknown>): void {
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const values = Object.fromEntries(new FormData(form, event.submitter)) as Values;
    const buttons = form.querySelectorAll<HTMLButtonElement>("button");
    for (const button of buttons) button.disabled = true;
    try {
      await send(values);
      show([]);
      form.reset();
    } catch (error) {
      const faults = faultsOf(error);
      show(faults.length > 0 ? faults : [{ message: messageOf(error) }]);
    } finally {
      for (const button of buttons) button.disabled = false;
    }
  });
  function show(faults: readonly Fault[]): void {
    for (const old of form.querySelectorAll(".error")) old.remove();
    for (const input of form.querySelectorAll("input, textarea")) input.removeAttribute("aria-invalid");
    const alert = form.querySelector("[role=alert]")!;
    alert.textContent = "";
    for (const { field, message } of faults) {
      const input = field ? (form.elements.namedItem(field) as HTMLElement | null) : null;
      if (input === null) alert.textContent += `${message} `;
      input?.setAttribute("aria-invalid", "true");
      input?.parentElement?.append(element("span", { className: "error" }, message));
    }
    form.querySelector<HTMLElement>("[aria-invalid]")?.focus();
  }
}

export const formIn = (id: string): HTMLFormElement => find(`#${id} form`);
export const close = (id: string): void => find<HTMLDialogElement>(`#${id}`).close();
