import { join } from "node:path";
import pg from "pg";
import type { Configured } from "../../../app/configured.ts";
import { installWithBase } from "../../../cli/base.ts";
import { readCurrent } from "../../../cli/current-migration.ts";
import { withClient } from "../../../db/cluster/client.ts";
import type { Cluster } from "../../../db/cluster/embedded.ts";
import { migrate } from "../../../db/cluster/migrate.ts";
import { baseOf } from "../../../db/cluster/migrations-folder.ts";
import type { ModuleChoice } from "../../../db/cluster/modules.ts";
import { provisionLogins } from "../../../db/cluster/provision.ts";
import { type Finding, onOneLine, sorted } from "../../../db/findings/finding.ts";
import { type CompareOptions, inNewDatabase } from "./compare.ts";
import { type Change, contractChanges, newOmissions, readContract } from "./contract.ts";
import { type Objects, rehearse, type Step } from "./rehearsal.ts";
import { type Judgement, judge, MIGRATION_RULES } from "./rules.ts";

/** What is wrong with `current.sql`, and what it changes for clients. */
export type Verdict = { readonly judgements: readonly Judgement[]; readonly changes: readonly Change[] };

type Options = ModuleChoice & {
  readonly folder: string;
  readonly configured: Configured;
  readonly inspect: CompareOptions["inspect"];
  readonly print: (text: string) => void;
};

/** Runs `current.sql` on a temporary database with the committed migrations, and judges what it does. */
export async function judgeCurrent(
  cluster: Cluster,
  { configured, inspect, print, ...installation }: Options,
): Promise<Verdict> {
  const { config } = configured;
  return inNewDatabase(cluster, "rehearsed", async (url) => {
    await installWithBase(url, baseOf(join(installation.folder, "..")), installation);
    await migrate(url, () => {}, installation);
    const { modules } = installation;
    const logins = await withClient(url, (owner) =>
      provisionLogins(owner, url, "rehearsed", [], config.dbAnonRole || "anon", 600, modules),
    );
    print("Reading what clients see before current.sql …\n");
    const [before, known] = [await readContract(configured, logins), await withClient(url, inspect)];
    print("Running current.sql, and judging each statement …\n");
    const steps = await rehearse(url, { file: "current.sql", text: await readCurrent(url, installation.folder) });
    print("Comparing what clients see after it …\n");
    const after = await readContract(configured, logins);
    const found = [...(await withClient(url, inspect)), ...newOmissions(before, after)];
    const isNew = ({ rule, object }: Finding) => !known.some((each) => each.rule === rule && each.object === object);
    const advice = sorted(found.filter(isNew)).map((finding) => ({ ...finding, place: placeOf(finding, steps) }));
    return { judgements: [...judge(steps), ...advice], changes: contractChanges(before, after) };
  });
}

/** The statement that the advice is about: the last one that changed the object or its table, and names it, as far as it can be known. */
function placeOf({ object }: Finding, steps: readonly Step[]): string {
  const name = object.replace(/^(materialized view|foreign table|[a-z]+) /, "");
  const [part, table = part!.replace(/\.[^.]+$/, "")] = name.split(/ on (?=\S+$)/);
  const textIn = (objects: Objects) =>
    JSON.stringify([...objects.values()].filter((each) => each.name === name || each.name === table));
  const changes = steps.filter(({ before, after }) => textIn(before) !== textIn(after));
  const word = part!.replace(/\(.*|"/g, "");
  const isNamed = ({ statement }: Step) => statement.text.includes(word);
  return (changes.findLast(isNamed) ?? changes.at(-1) ?? steps.findLast(isNamed))?.place ?? "current.sql";
}

/** What was found and did not stop the commit. */
export function describeVerdict({ judgements, changes }: Verdict): string {
  const additions = changes.filter(({ isBreaking }) => !isBreaking);
  return [
    ...judgements.map(textOf),
    ...(additions.length > 0 ? [`What changes for clients, without breaking them:\n${listed(joined(additions))}`] : []),
  ]
    .map((block) => `${block}\n`)
    .join("");
}

/** The errors, and the changes that break clients. */
export const breaking = ({ judgements, changes }: Verdict): Verdict => ({
  judgements: judgements.filter(({ level }) => level === "error"),
  changes: changes.filter(({ isBreaking }) => isBreaking),
});

/** Why nothing was committed, and how to go on. */
export function describeRefusal(verdict: Verdict): string {
  const { judgements, changes } = breaking(verdict);
  const others = verdict.judgements.filter(({ level }) => level !== "error");
  return [
    "nothing was committed.",
    ...judgements.map(textOf),
    ...howToAccept(judgements),
    ...(changes.length > 0 ? [`This breaks clients:\n${listed(changes)}`, HOW_TO_BREAK] : []),
    ...others.map(textOf),
  ].join("\n");
}

/** How errors are accepted: those of statements by a comment in the migration, those of the advisor by a comment in the database. */
function howToAccept(errors: readonly Judgement[]): readonly string[] {
  const of = [true, false].map((isOfStatement) => errors.find(({ rule }) => rule in MIGRATION_RULES === isOfStatement));
  return [
    of[0] && `If that is intended, say why in a comment before the statement:\n    -- @accept ${of[0].rule} reason`,
    of[1] && `If that is intended, say why in SQL:\n    ${acceptance(of[1])}`,
  ].filter((line) => line !== undefined);
}

/** Keeps what the comment says. */
function acceptance({ object, rule, comment }: Judgement): string {
  const text = [`@accept ${rule} reason`, ...(comment ? [comment.trim()] : [])].join("\n");
  return `comment on ${object} is ${onOneLine(pg.escapeLiteral(text)).trim()};`;
}

const HOW_TO_BREAK = `If it is intended, commit with --breaking "reason", which CHANGELOG.md of the application gets.`;

function textOf({ place, level, object, reason, rule, fix }: Judgement): string {
  const better = fix === null ? "" : `\n${fix.replace(/^/gm, "    ")}`;
  return `${place}: ${level}: ${object}: ${reason} (${rule})${better}`;
}

/** What the rules of migrations have found, without places: the file of the migration has other lines. The advisor judges the result. */
export const judgementLines = ({ judgements }: Verdict): readonly string[] =>
  judgements
    .filter(({ rule }) => rule in MIGRATION_RULES)
    .map(({ object, reason, rule }) => `${object}: ${reason} (${rule})`);

const listed = (changes: readonly Change[]): string =>
  linesFor(changes)
    .map((line) => `  ${line}`)
    .join("\n");

/** A line for each change. Those that follow from others are counted. */
export function linesFor(changes: readonly Change[]): readonly string[] {
  const own = changes.filter(({ isDerived }) => !isDerived);
  const shown = own.length > 0 ? own : changes;
  const more = changes.length - shown.length;
  return [
    ...shown.map(describeChange),
    ...(more > 0 ? [`and ${more} more, such as types that follow from these`] : []),
  ];
}

/** What is new in the same way for the same callers, as one change: `Query.tag, Query.tags and 64 more were added` */
function joined(additions: readonly Change[]): readonly Change[] {
  const own = additions.filter(({ isDerived }) => !isDerived);
  const parsed = own.map((change) => ({ change, parts: NAMED.exec(change.text)! }));
  const groups = Map.groupBy(parsed, ({ change, parts: [, head, , tail] }) =>
    JSON.stringify([change.interface, change.roles, head, tail]),
  );
  const changes = [...groups.values()].map((group): Change => {
    const { change, parts } = group[0]!;
    if (group.length === 1) return change;
    const head = parts[1]!.replace(/^An optional (\w+)/, "Optional $1s").replace("the parameter", "the parameters");
    const names = group.map(({ parts: [, , name] }) => name);
    const more = names.length > MAX_NAMES ? ` and ${names.length - MAX_NAMES} more` : "";
    const shown = names.slice(0, MAX_NAMES).join(", ") + more;
    return { ...change, text: head + shown + parts[3]!.replace(/ was /, " were ").replace(/ is /, " are ") };
  });
  return [...changes, ...additions.filter(({ isDerived }) => isDerived)];
}

const MAX_NAMES = 12;

/** The name in a change, and what is before and after it. */
const NAMED = /^(An optional \w+ |\S+: the parameter |)(\S+)(.*)$/s;

/** `REST for anon, authenticated: /notes was removed` */
const describeChange = ({ interface: name, roles, text }: Change): string =>
  `${name} for ${roles.length > 0 ? roles.join(", ") : "all callers"}: ${text}`;
