import { Html, html } from "../html.ts";

export type Field = { readonly name: string; readonly label: string; readonly value: string };

export const selectField = ({ name, label, value, values }: Field & { readonly values: readonly string[] }): Html =>
  html`<label for="${name}">${label}</label><select id="${name}" name="${name}">${values.map(
    (each) => html`<option${new Html(each === value ? " selected" : "")}>${each}</option>`,
  )}</select>`;

/** What an operator has to correct in a form. */
export class FormFault extends Error {}

/** What a form leads to, or what has to be corrected in it. */
export async function orFault(work: () => Promise<Html>): Promise<Html> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof FormFault) return html`<p class="bad" role="alert">${error.message}</p>`;
    throw error;
  }
}
