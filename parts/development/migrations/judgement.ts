import { join } from "node:path";
import type { Configured } from "../../../app/configured.ts";
import { baseOf, installWithBase } from "../../../db/cluster/base.ts";
import { withClient } from "../../../db/cluster/client.ts";
import type { Cluster } from "../../../db/cluster/embedded.ts";
import { readCurrent } from "../../../db/cluster/graphile-migrate.ts";
import { migrate } from "../../../db/cluster/migrate.ts";
import type { ModuleChoice } from "../../../db/cluster/modules.ts";
import { provisionLogins } from "../../../db/cluster/provision.ts";
import { type Finding, sorted } from "../../../db/findings/finding.ts";
import { type CompareOptions, inNewDatabase } from "./compare.ts";
import { type Change, contractChanges, newOmissions, readContract } from "./contract.ts";
import { type Rehearsal, rehearse } from "./rehearsal.ts";
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
    const rehearsal = await rehearse(url, { file: "current.sql", text: await readCurrent(url, installation.folder) });
    print("Comparing what clients see after it …\n");
    const after = await readContract(configured, logins);
    const found = [...(await withClient(url, inspect)), ...newOmissions(before, after)];
    const isNew = ({ rule, object }: Finding) => !known.some((each) => each.rule === rule && each.object === object);
    const advice = sorted(found.filter(isNew)).map((finding) => ({ ...finding, place: placeOf(finding, rehearsal) }));
    return { judgements: [...judge(rehearsal), ...advice], changes: contractChanges(before, after) };
  });
}

/** The statement that the advice is about: the last one that made or changed the object, or its table, or that names it. */
function placeOf({ object }: Finding, { steps }: Rehearsal): string {
  const name = object.replace(/^(materialized view|foreign table|[a-z]+) /, "");
  const [part, table = part!.replace(/\.[^.]+$/, "")] = name.split(/ on (?=\S+$)/);
  const changes = (wanted: string | undefined) =>
    steps.filter(({ events }) => events.some((event) => event.kind === "changed" && event.name === wanted));
  const ofTable = changes(table);
  const isNamed = ({ statement }: Rehearsal["steps"][number]) => statement.text.includes(part!.replaceAll('"', ""));
  const isReference = ({ statement }: Rehearsal["steps"][number]) =>
    object.startsWith("constraint ") && /\breferences\b/i.test(statement.text);
  const step =
    changes(name).at(-1) ??
    ofTable.findLast(isNamed) ??
    ofTable.findLast(isReference) ??
    ofTable.at(-1) ??
    steps.findLast(isNamed);
  return step?.place ?? "current.sql";
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
  const ofStatement = errors.find(({ rule }) => rule in MIGRATION_RULES);
  const ofAdvisor = errors.find(({ rule }) => !(rule in MIGRATION_RULES));
  return [
    ...(ofStatement
      ? [`If that is intended, say why in a comment before the statement:\n    -- @accept ${ofStatement.rule} reason`]
      : []),
    ...(ofAdvisor
      ? [
          `If that is intended, say why in SQL:\n    comment on ${ofAdvisor.object} is '@accept ${ofAdvisor.rule} reason';`,
        ]
      : []),
  ];
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

/** What is new in the same way for the same callers, as one change: `Query.tag, Query.tags were added` */
function joined(additions: readonly Change[]): readonly Change[] {
  const sorted = additions.map((change) => ({ change, ...formOf(change) }));
  const groups = Map.groupBy(sorted, ({ change, text }) => JSON.stringify([change.interface, change.roles, text]));
  return [...groups.values()].map((group) => {
    const [{ change, text }] = group as [(typeof group)[0]];
    return group.length === 1
      ? change
      : { ...change, text: text.replace("…", () => group.map(({ name }) => name).join(", ")) };
  });
}

/** The texts of additions, and how several of them begin and end. */
const FORMS: readonly (readonly [one: RegExp, several: string])[] = [
  [/^(\S+) was added$/, "… were added"],
  [/^(\S+) was (added to .+)$/, "… were $2"],
  [/^(\S+) is (new in .+)$/, "… are $2"],
  [/^An optional field (\S+) on (.+) was added$/, "Optional fields … on $2 were added"],
  [/^An optional arg (\S+) on (.+) was added$/, "Optional arguments … on $2 were added"],
  [/^(?=\S+: the parameter (\S+))(\S+): the parameter \S+ was added$/, "$2: the parameters … were added"],
];

/** The name in an addition, and the text for several. Those that follow from others are only counted: each stays as it is. */
function formOf({ text, isDerived }: Change): { readonly name: string; readonly text: string } {
  const [one, several] = (!isDerived && FORMS.find(([form]) => form.test(text))) || [];
  return one === undefined ? { name: "", text } : { name: one.exec(text)![1]!, text: text.replace(one, several!) };
}

/** `REST for anon, authenticated: /notes was removed` */
const describeChange = ({ interface: name, roles, text }: Change): string =>
  `${name} for ${roles.length > 0 ? roles.join(", ") : "all callers"}: ${text}`;
