import type { Caller } from "../../../db/caller.ts";
import { quoteIfNeeded, type Table } from "../../../db/catalog/catalog.ts";
import { mayUseColumn } from "../../../db/catalog/grants.ts";
import { lossOf } from "../../../db/changes/lost-changes.ts";
import { CheckError, type Inquiry } from "../../../db/rights/checker.ts";
import { FilterError, type FilterRequest, type PreparedFilter, sharedFilter } from "../../../db/rights/filter.ts";
import { columnsRead, type Rights } from "../../../db/rights/rights.ts";
import { SharedCheck } from "../../../db/rights/shared-check.ts";
import { Watches } from "../../../db/rights/subscriber-watches.ts";
import type { View } from "../../../db/rights/watch.ts";
import { writeArray } from "../../../db/wire/array-text.ts";
import { inWords, statementsOf } from "../changes.ts";
import {
  type AskedChange,
  type AskedEvent,
  type AskedRows,
  askedRows,
  changeOf,
  QuestionFault,
  stateOf,
} from "./asked-change.ts";
import { type ChangesSetup, fixable, type Step, setupSteps, step } from "./change-setup.ts";
import { missingGrants, type Obstacle, type RowAccessCheck } from "./row-access.ts";

/** What a subscriber receives of a change, and the conditions for it. */
export type Reception = {
  readonly steps: readonly Step[];
  /** The event that the subscriber receives; null for none. */
  readonly event: AskedEvent | null;
  /** A sentence: `The subscriber receives nothing.` */
  readonly answer: string;
};

export type ChangeQuestion = {
  readonly table: Table;
  readonly caller: Caller;
  readonly change: AskedChange;
  /** As a stream of the table has it; null for none. */
  readonly filter: FilterRequest | null;
};

export type MissingChangeOptions = {
  readonly rights: Rights;
  readonly access: RowAccessCheck;
  /** That of subscribers without a token. */
  readonly anonymousRole: string;
  /** The login roles that take on the roles of callers. */
  readonly logins: readonly string[];
  readSetup(table: Table): Promise<ChangesSetup>;
};

type Side = "new" | "old";

/** Why a subscriber does not receive a change. The answer is that of the delivery itself; the steps explain it. */
export class MissingChangeCheck {
  readonly #options: MissingChangeOptions;

  constructor(options: MissingChangeOptions) {
    this.#options = options;
  }

  /** Rejects with QuestionFault if the question has to be corrected. */
  async explain(question: ChangeQuestion): Promise<Reception> {
    const { table, caller, change } = question;
    const setup = await this.#options.readSetup(table);
    const role = this.#roleStep(caller.role);
    const steps = [...setupSteps(setup, table, change.event), role];
    if (!role.isMet) return nothing(steps);
    const rows = await askedRows(change, table, (values) => this.#write(table, values, caller));
    const signedOut = this.#signedOutStep(question);
    steps.push(signedOut ?? this.#grantStep(question));
    const { filter, obstacles } = await this.#filterOf(question);
    if (question.filter !== null) steps.push(step("The subscriber may use the filter", obstacles));
    const view = await this.#options.rights.view(table, caller.role);
    if (!("refusal" in view)) steps.push(...columnSteps(question, setup, view, filter));
    const isPossible = steps.every(({ isMet, isRequired }) => isMet || !isRequired) && !("refusal" in view);
    if (signedOut === null) steps.push(...(await this.#rowSteps(question, rows, filter)));
    return isPossible ? this.#deliver(question, setup, rows, filter, steps) : nothing(steps);
  }

  /** Only a role that exists, and that a login of the service may become, can subscribe. */
  #roleStep(role: string): Step {
    const { logins, rights } = this.#options;
    const { roles } = rights.catalog;
    const condition = `The service may act as the role ${role}`;
    if (!roles.has(role)) return step(condition, [fixable("there is no such role", [])]);
    if (this.#mayBecome(role)) return step(condition, []);
    const grant = `grant ${quoteIfNeeded(role)} to ${quoteIfNeeded(logins[0]!)}`;
    return step(condition, [fixable("the login of the service may not become it", [grant])]);
  }

  #mayBecome(role: string): boolean {
    const { logins, rights } = this.#options;
    const { roles } = rights.catalog;
    return logins.some(
      (login) => login === role || roles.get(login)?.isSuperuser || roles.get(login)?.mayBecome.has(role),
    );
  }

  /** Subscribers without a token, to a table that only others may read, are not to get a grant. Null for all others. */
  #signedOutStep({ table, caller }: ChangeQuestion): Step | null {
    const { rights, anonymousRole, logins } = this.#options;
    const { catalog } = rights;
    const mayRead = (role: string) => missingGrants(catalog, role, table, "select").length === 0;
    if (caller.role !== anonymousRole || mayRead(caller.role)) return null;
    const others = [...catalog.roles.values()].filter(
      ({ name, bypassesRowSecurity }) => !bypassesRowSecurity && !logins.includes(name) && this.#mayBecome(name),
    );
    const readers = others.map(({ name }) => name).filter(mayRead);
    if (readers.length === 0) return null;
    const reason = `${caller.role} may not SELECT from ${table.schema}.${table.name}, but ${readers.join(", ")} may: send a token (in a channel, setAuth() before subscribe()), or ask about a role and the claims of a token`;
    return step("The subscriber is signed in", [fixable(reason, [])]);
  }

  #grantStep({ table, caller: { role } }: ChangeQuestion): Step {
    const missing = missingGrants(this.#options.rights.catalog, role, table, "select");
    return step(`The role ${role} may SELECT from ${table.schema}.${table.name}`, missing);
  }

  async #write(table: Table, values: string, caller: Caller): Promise<string> {
    try {
      return await this.#options.access.write(table, values, caller);
    } catch (error) {
      throw new QuestionFault(
        `The values are not a row of ${table.schema}.${table.name}: ${(error as Error).message}.`,
      );
    }
  }

  async #filterOf({ table, caller: { role }, filter: request }: ChangeQuestion) {
    const { rights } = this.#options;
    const obstacles: Obstacle[] = [];
    if (request === null) return { filter: null, obstacles };
    try {
      const filter = await rights.prepareFilter(request, table, role);
      for (const name of filter.columns.keys()) {
        if (mayUseColumn(rights.catalog, role, table, table.columns.get(name)!, "select")) continue;
        const on = `${quoteIfNeeded(table.schema)}.${quoteIfNeeded(table.name)}`;
        const grant = `grant select (${quoteIfNeeded(name)}) on ${on} to ${quoteIfNeeded(role)}`;
        obstacles.push(fixable(`the role ${role} may not read the column ${name}`, [grant]));
      }
      return { filter, obstacles };
    } catch (error) {
      if (!(error instanceof FilterError)) throw error;
      return { filter: null, obstacles: [fixable(error.message, [])] };
    }
  }

  /** Whether the rows fulfil the filter, and the policies let the caller read them. */
  async #rowSteps(
    { table, caller }: ChangeQuestion,
    rows: AskedRows,
    filter: PreparedFilter | null,
  ): Promise<readonly Step[]> {
    const steps: Step[] = [];
    for (const side of ["new", "old"] as const) {
      const row = rows[side];
      if (row === null) continue;
      if (filter !== null) steps.push(await this.#fulfils(side, row, filter, table, caller.role));
      const obstacles = await this.#options.access.reading({ table, row, caller });
      steps.push(step(`The policies let the subscriber read the ${side} row`, obstacles, false));
    }
    return steps;
  }

  async #fulfils(side: Side, row: string, filter: PreparedFilter, table: Table, role: string): Promise<Step> {
    const { checker } = this.#options.rights;
    const condition = `The ${side} row fulfils the filter`;
    const terms = filter.terms.map((term) => (Array.isArray(term) ? writeArray(term) : (term as string | null)));
    try {
      const check = new SharedCheck(sharedFilter(filter), table, role, checker);
      const found = await check.find([terms], writeArray([row]), this.#inquiry);
      return step(condition, found.size > 0 ? [] : [fixable(`it is not true for the ${side} row`, [])], false);
    } catch (error) {
      if (!(error instanceof CheckError)) throw error;
      return step(condition, [fixable(error.message, [])], false);
    }
  }

  get #inquiry(): Inquiry {
    return this.#options.rights.checker.inquiry("alone");
  }

  /** Lets the delivery decide, as for a real change. */
  async #deliver(
    { table, caller, change }: ChangeQuestion,
    setup: ChangesSetup,
    rows: AskedRows,
    filter: PreparedFilter | null,
    steps: readonly Step[],
  ): Promise<Reception> {
    const watches = new Watches(this.#options.rights);
    watches.add({ table, caller, filter, subscriber: {} });
    const asked = changeOf(change.event, rows, table, stateOf(setup.tables, table)!);
    const { results } = await watches.findVisible([asked], this.#inquiry);
    const [visible] = results.flatMap((result) => result.visible);
    const [failure] = results.flatMap((result) => result.failures);
    if (failure) return { steps, event: null, answer: `The subscriber receives an error: ${failure.error.message}.` };
    if (!visible) return nothing(steps);
    const event = visible.event as AskedEvent;
    const left = visible.left === "filter" ? "no longer fulfils the filter" : "is hidden from it by a policy";
    const because = visible.left === null ? "" : `, with the key of the row alone, because the new row ${left}`;
    const isPartial = event === "UPDATE" && !visible.seesOld;
    const partly = isPartial ? " Of the old row it receives at most the key." : "";
    const filtered = setup.rowFilter === null ? "" : ", if the publication sends the row";
    return { steps, event, answer: `The subscriber receives ${event}${because}${filtered}.${partly}` };
  }
}

const nothing = (steps: readonly Step[]): Reception => ({
  steps,
  event: null,
  answer: "The subscriber receives nothing.",
});

/** Whether a change has the columns that the policies and the filter read. */
function columnSteps(
  { table, change: { event } }: ChangeQuestion,
  setup: ChangesSetup,
  view: View,
  filter: PreparedFilter | null,
): readonly Step[] {
  const { state } = setup;
  const found = stateOf(setup.tables, table);
  if (state === null || !found?.isPublished) return [];
  const read = columnsRead(view, filter?.columns.keys());
  const loss = lossOf(found, read, state);
  const obstacles = loss === null ? [] : [fixable(inWords(loss), statementsOf(loss))];
  const isAll = loss?.isAll === true;
  const published = step("The publication has the columns that policies and filter read", isAll ? obstacles : []);
  if (event === "INSERT" || isAll) return [published];
  const logged = "The old row is logged with the columns that policies and filter read";
  return [published, step(logged, obstacles, false)];
}
