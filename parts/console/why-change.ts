import type { Caller } from "../../db/caller.ts";
import type { Table } from "../../db/catalog/catalog.ts";
import type { PatternLimits } from "../../db/filters/patterns.ts";
import { FilterError } from "../../db/rights/filter.ts";
import { type Html, html } from "../../gate/pages/html.ts";
import { table } from "../../gate/pages/table.ts";
import { type AskedEvent, EVENTS } from "../advisor/why/asked-change.ts";
import type { Step } from "../advisor/why/change-setup.ts";
import type { MissingChangeCheck, Reception } from "../advisor/why/missing-change.ts";
import type { Obstacle } from "../advisor/why/row-access.ts";
import { parseStreamFilter } from "../advisor/why/stream-filter.ts";
import { FormFault, inputField, nameOfCaller, selectField } from "./caller-form.ts";

export type WhyChangeOptions = {
  readonly changes: MissingChangeCheck;
  filterLimits(): PatternLimits;
};

const NO_CHANGE = "none";
const MAX_FILTER = 8192;

/** The fields that describe a change. */
export function changeFields(form: URLSearchParams | null, fault: FormFault | null): Html {
  const event = selectField({
    name: "event",
    label: "Change",
    value: form?.get("event") ?? NO_CHANGE,
    values: [NO_CHANGE, ...EVENTS],
  });
  const field = (name: string, label: string, placeholder: string) =>
    html`<div class="pair">${inputField({ name, label, placeholder, value: form?.get(name) ?? "", maxlength: 65_536 }, fault)}</div>`;
  return html`<fieldset><legend>Does a subscriber receive a change?</legend><div class="row">${event}
${field("old", "Old values", '{"status": "DRAFT"}')}${field("new", "New values", '{"status": "PUBLISHED"}')}
${field("filter", "Filter", "status=eq.DRAFT")}</div>
<p class="muted">Both rows begin with the values of the row; give those that differ, as JSON. Without a primary key, give all of them.</p></fieldset>`;
}

/** The event that the form asks about; null if it asks about the row alone. */
export const eventIn = (form: URLSearchParams): AskedEvent | null =>
  EVENTS.find((each) => each === form.get("event")) ?? null;

/** Whether a subscriber receives the change, and why not. Rejects with QuestionFault and FormFault. */
export async function changeExplanation(
  form: URLSearchParams,
  event: AskedEvent,
  { table: found, caller }: { readonly table: Table; readonly caller: Caller },
  readRow: ((changes: string) => Promise<string>) | null,
  { changes, filterLimits }: WhyChangeOptions,
): Promise<Html> {
  const change = { event, readRow, old: form.get("old") ?? "", new: form.get("new") ?? "" };
  const filter = filterIn(form, filterLimits());
  return answerTo(caller, event, await changes.explain({ table: found, caller, change, filter }));
}

function filterIn(form: URLSearchParams, limits: PatternLimits) {
  const text = form.get("filter") ?? "";
  if (text.length > MAX_FILTER)
    throw new FormFault(`The filter must not have more than ${MAX_FILTER} characters.`, "filter");
  try {
    return parseStreamFilter(text, limits);
  } catch (error) {
    throw error instanceof FilterError ? new FormFault(`${error.message}.`, "filter") : error;
  }
}

const answerTo = (
  caller: Caller,
  event: AskedEvent,
  { steps, answer, event: received }: Reception,
): Html => html`<section aria-labelledby="answer">
<h2 id="answer">What ${nameOfCaller(caller)} receives of this ${event}</h2>
<p class="${received === null ? "bad" : "good"}">${answer}</p>
${table(["Condition", "Met", "Because"], steps.map(stepRow))}
</section>`;

const stepRow = ({ condition, isMet, obstacles }: Step): Html =>
  html`<tr><th scope="row">${condition}</th><td class="${isMet ? "good" : "bad"}">${isMet ? "yes" : "no"}</td><td>${obstaclesList(obstacles)}</td></tr>`;

export const obstaclesList = (obstacles: readonly Obstacle[]): Html | null =>
  obstacles.length === 0 ? null : html`<ul>${obstacles.map((each) => html`<li>${obstacle(each)}</li>`)}</ul>`;

const obstacle = ({ reason, expression, fix }: Obstacle): Html =>
  html`${reason}${expression && html`: <code>${expression}</code>`}${fix && html`.<br>If it should: <code>${fix}</code>`}`;
