import type { Caller } from "../../db/caller.ts";
import { type Catalog, quoteIfNeeded, type Table } from "../../db/catalog/catalog.ts";
import { isTransient } from "../../db/errors.ts";
import { type Html, html } from "../../gate/pages/html.ts";
import { table } from "../../gate/pages/table.ts";
import { askedKey, askedTable, hasRows, MAX_KEY } from "../advisor/why/asked-change.ts";
import type { Evaluated, RowAccess, RowAccessCheck, Verdict } from "../advisor/why/row-access.ts";
import {
  type AsOptions,
  asFields,
  askedIn,
  callerIn,
  FormFault,
  formAndOutcome,
  inputField,
  NO_OUTCOME,
  nameOfCaller,
  outcomeOf,
} from "./caller-form.ts";
import { csrfField, type View } from "./console.ts";
import { CONSOLE } from "./path.ts";
import type { Operator } from "./session.ts";
import { changeExplanation, changeFields, eventIn, obstaclesList, type WhyChangeOptions } from "./why-change.ts";

export type WhyOptions = AsOptions &
  WhyChangeOptions & {
    catalog(): Catalog;
    readonly check: RowAccessCheck;
    /** The login role that takes on this role in requests. */
    loginOf(role: string): string;
  };

const MAX_LISTED = 1000;

/** `/console/why`: which grant or policy hides a row from a caller, and why a subscriber does not receive a change. */
export const whyView = (options: WhyOptions): View => ({
  path: `${CONSOLE}/why`,
  name: "Why?",
  icon: "why",
  hasForm: true,
  async render({ form, operator }) {
    const outcome = form ? await outcomeOf(() => explanation(form, operator, options)) : NO_OUTCOME;
    return html`
<h1>Why is a row hidden, or a change missing?</h1>
${outcome.shown === null ? html`<p>Names the grant that a caller lacks, or the policy that is not true for a row, for reading and for writing. For a change, names every condition under which a subscriber receives it. Nothing is changed.</p>` : null}
${formAndOutcome(questionForm(form, operator, options, outcome.fault), askedBy(form), outcome)}`;
  },
});

/** `public.posts 7` */
const askedBy = (form: URLSearchParams | null): string => `${form?.get("table") ?? ""} ${form?.get("key") ?? ""}`;

function questionForm(
  form: URLSearchParams | null,
  operator: Operator,
  options: WhyOptions,
  fault: FormFault | null,
): Html {
  const value = (name: string) => form?.get(name) ?? "";
  const [found, key] = [
    { name: "table", label: "Table", value: value("table"), list: "tables", maxlength: 130, isRequired: true },
    { name: "key", label: "Primary key", value: value("key"), maxlength: MAX_KEY },
  ];
  return html`<form method="post" action="${CONSOLE}/why#outcome">
${csrfField(operator.csrf)}
<fieldset><legend>Row</legend><div class="row">
${inputField(found, fault)}
<datalist id="tables">${tablesOf(options.catalog())
    .slice(0, MAX_LISTED)
    .map(({ schema, name }) => html`<option value="${schema}.${name}">`)}</datalist>
${inputField(key, fault)}
</div><p class="muted">The values of a key with several columns are separated by commas.</p></fieldset>
${asFields(form, operator, options, fault)}
${changeFields(form, fault)}
<button>Explain</button>
</form>`;
}

const tablesOf = ({ schemas }: Catalog): readonly Table[] =>
  [...schemas.values()].flatMap(({ tables }) => [...tables.values()]).filter(hasRows);

async function explanation(form: URLSearchParams, operator: Operator, options: WhyOptions): Promise<Html> {
  const found = askedIn("table", () => askedTable(form.get("table") ?? "", options.catalog()));
  const event = eventIn(form);
  const hasKey = event === null || form.get("key")?.trim();
  const key = hasKey ? askedIn("key", () => askedKey(form.get("key") ?? "", found)) : null;
  const caller = await callerIn(form, operator, options);
  const readRow = key && ((changes?: string) => rowFor(operator, found, key, options, changes));
  if (event !== null) return changeExplanation(form, event, { table: found, caller }, readRow, options);
  const row = await readRow!();
  return answerTo(caller, await options.check.explain({ table: found, row, caller }));
}

/** The row as the operator sees it, because the caller may not. */
async function rowFor(
  { caller }: Operator,
  found: Table,
  key: readonly string[],
  options: WhyOptions,
  changes = "{}",
): Promise<string> {
  const { check, catalog } = options;
  const name = `${found.schema}.${found.name}`;
  refuseUnreachable(caller, found, options);
  const row = await check.find(found, key, caller, changes).catch((error: Error & { code?: string }) => {
    if (error.code === "42501") throw new FormFault(unreadable(found, caller, error.message));
    if (error.code?.startsWith("22"))
      throw new FormFault(
        `${changes === "{}" ? "This is not a key" : "These are not values"} of ${name}: ${error.message}.`,
        changes === "{}" ? "key" : null,
      );
    if (isTransient(error)) throw error;
    throw new FormFault(`The row cannot be read: ${error.message}.`);
  });
  if (row !== null) return row;
  throw new FormFault(
    catalog().roles.get(caller.role)?.bypassesRowSecurity
      ? `There is no row with this key in ${name}.`
      : `You see no row with this key in ${name}: there is none, or policies hide it from you too. The service key sees every row.`,
  );
}

/** Only a role that exists, and that the login may become, can read the row. */
function refuseUnreachable({ role }: Caller, { schema, name }: Table, { catalog, loginOf }: WhyOptions): void {
  const { roles } = catalog();
  const login = loginOf(role);
  const { isSuperuser = false, mayBecome = new Set() } = roles.get(login) ?? {};
  const table = `${quoteIfNeeded(schema)}.${quoteIfNeeded(name)}`;
  if (!roles.has(role))
    throw new FormFault(
      `The row is read with your own role ${role}, which does not exist in this database: sign in with a token of a role that may read ${table}, and that CONSOLE_ROLES names.`,
    );
  if (isSuperuser || login === role || mayBecome.has(role)) return;
  throw new FormFault(
    `The row is read with your own role ${role}, which the login of the service may not become: grant ${quoteIfNeeded(role)} to ${quoteIfNeeded(login)};`,
  );
}

function unreadable({ schema, name }: Table, { role }: Caller, reason: string): string {
  const grant = `grant select on ${quoteIfNeeded(schema)}.${quoteIfNeeded(name)} to ${quoteIfNeeded(role)};`;
  const other = role === "service_role" ? "" : ", or sign in with the service key";
  return `The row is read with your own role ${role}, and ${role} may not read it (${reason}): ${grant}${other}`;
}

const answerTo = (
  caller: Caller,
  { verdicts, policies, isUnrestricted }: RowAccess,
): Html => html`<section aria-labelledby="answer">
<h2 id="answer">What ${nameOfCaller(caller)} may do with this row</h2>
${isUnrestricted ? html`<p>Row-level security does not apply here: the grants alone decide.</p>` : null}
${table(["Command", "Allowed", "Because"], verdicts.map(verdictRow))}
<p class="muted">For insert, and for the new values of an update, the policies are evaluated with the present values of the row.</p>
${policies.length > 0 ? html`<h3>Policies that apply, for this row</h3>${table(["Policy", "For", "Expression", "Is"], policies.map(policyRow))}` : null}
</section>`;

const LABELS: Readonly<Record<Verdict["command"], string>> = {
  select: "read",
  insert: "insert",
  update: "update",
  delete: "delete",
};

const verdictRow = ({ command, isAllowed, columns, obstacles }: Verdict): Html => {
  const allowed = columns === "all" ? "the grants and policies allow it" : `for the columns ${columns.join(", ")}`;
  const because = isAllowed ? allowed : obstaclesList(obstacles);
  return html`<tr><th scope="row">${LABELS[command]}</th><td class="${isAllowed ? "good" : "bad"}">${isAllowed ? "yes" : "no"}</td><td>${because}</td></tr>`;
};

const policyRow = ({ policy: { name, command, isPermissive }, expression, result }: Evaluated): Html =>
  html`<tr><th scope="row">${name}${isPermissive ? null : html` <strong class="warn">restrictive</strong>`}</th><td>${command}</td><td><code>${expression}</code></td><td class="${result === "true" ? "good" : "bad"}">${result}</td></tr>`;
