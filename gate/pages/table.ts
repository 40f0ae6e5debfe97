import { type Html, html, type Value } from "./html.ts";

/** A table that scrolls, with the keyboard too. `rows` are complete. */
export const table = (heads: readonly Value[], rows: readonly Html[]): Html =>
  html`<div class="scroll" tabindex="0"><table>
<thead><tr>${heads.map((head) => html`<th scope="col">${head}</th>`)}</tr></thead>
<tbody>
${rows.map((row) => html`${row}\n`)}</tbody>
</table></div>`;

/** `2026-11-24T08:00:00+01:00` → `2026-11-24 07:00:00`, for a column whose head says that it is in UTC. */
export const stampOf = (time: string): Html =>
  html`<time datetime="${time}">${new Date(time).toISOString().slice(0, 19).replace("T", " ")}</time>`;

/**
 * A table whose first cell of each row names it. Where the page is narrow, each row is a list of its values, with the heads beside them.
 * Values that are null or "" are shown as a dash.
 */
export const records = (heads: readonly string[], rows: readonly (readonly Value[])[]): Html => {
  const cell = (value: Value, i: number) =>
    i === 0
      ? html`<th scope="row">${value}</th>`
      : html`<td data-head="${heads[i] ?? ""}">${value === null || value === "" ? "–" : html`<div>${value}</div>`}</td>`;
  return html`<div class="scroll" tabindex="0"><table class="records">
<thead><tr>${heads.map((head) => html`<th scope="col">${head}</th>`)}</tr></thead>
<tbody>
${rows.map((row) => html`<tr>${row.map(cell)}</tr>\n`)}</tbody>
</table></div>`;
};
