import type { Caller } from "../../db/caller.ts";
import type { Table } from "../../db/catalog/catalog.ts";
import { callerRoles } from "../../db/catalog/exposure.ts";
import { operatorAccess } from "../../gate/operations/operator.ts";
import type { HttpInterface } from "../../gate/pipeline/pipeline.ts";
import { assetsIn } from "../../pages/assets.ts";
import type { Database } from "../../rest-gateway/auth/functions.ts";
import { SIGN_IN_PATH } from "../../rest-gateway/auth/pages/paths.ts";
import { findAccount, findAccountOf } from "../../rest-gateway/auth/repository.ts";
import { ExpressInterface } from "../../rest-gateway/express-interface.ts";
import type { ConsolePage, Core, Part } from "../../service/part.ts";
import { Phases } from "../../telemetry/span.ts";
import { readChangesSetup } from "../advisor/why/change-setup.ts";
import { MissingChangeCheck } from "../advisor/why/missing-change.ts";
import { RowAccessCheck } from "../advisor/why/row-access.ts";
import { accessView } from "./access.ts";
import { activityView } from "./activity.ts";
import type { SendRequest } from "./admin-api.ts";
import type { AsOptions } from "./caller-form.ts";
import { consolePages, SIGN_IN, type View } from "./console.ts";
import { dataView } from "./data.ts";
import { eventsView } from "./events.ts";
import { type InProcessRequest, sendInProcess } from "./in-process.ts";
import { liveView } from "./live.ts";
import { CONSOLE } from "./path.ts";
import { schemaView } from "./schema.ts";
import { ConsoleSessions } from "./session.ts";
import { readActivity, SlowTransactions } from "./statements.ts";
import { readIndexes, readSizes } from "./storage.ts";
import { ExplainedTrial } from "./trial.ts";
import { type Tried, type TryOptions, tryView } from "./try.ts";
import { usersView } from "./users.ts";
import { whyView } from "./why.ts";

export const console: Part = {
  name: "console",
  about: "pages for operators at /console",
  paths: [`${CONSOLE}/*`],
  needs: ["advisor", "account-admin"],
  isForOperators: true,
  pages: () => [
    {
      ...{ path: CONSOLE, name: "Console", icon: "access", banner: "Console", signIn: SIGN_IN },
      about: "for operators: access, requests as any caller, hidden rows, live numbers",
    },
  ],
  assets: assetsIn(import.meta.url, "./assets", [
    ...["console.css", "console-live.js", "console-schema.js", "console-sign-in.js", "console-try.js"],
  ]),
  open: (core) => ({ http: createConsole(core) }),
};

/** `/console`. */
function createConsole(core: Core): HttpInterface {
  const { config, url, readMetrics: metrics, callers, secret, opened, database, graphql, auth, findings, tasks } = core;
  const { data, admin, service } = opened.logins;
  const logins = [data, admin, service].map((login) => decodeURIComponent(new URL(login).username));
  const catalog = () => core.catalog.current;
  // Not all changes of grants and policies are announced.
  const fresh = ({ render, ...view }: View): View => ({
    ...view,
    render: (input) => core.catalog.refreshIfStale().then(() => render(input)),
  });
  const roles = () => callerRoles(catalog(), logins);
  const advice = () => findings.advice;
  const access = accessView({ catalog, roles, anonymousRole: config.dbAnonRole, advice });
  const schema = schemaView({
    catalog,
    roles,
    sizes: () => readSizes(database.catalog, [...catalog().schemas.keys()]),
    indexes: (table) => readIndexes(database.catalog, table),
  });
  const as: AsOptions = {
    anonymousRole: config.dbAnonRole,
    roles,
    findAccount: auth && accountFinder(auth),
  };
  const trials: Pick<TryOptions, "send" | "onTried"> = {
    send: trialSender(core),
    onTried: (operator, caller, { method, path }, keepsChanges) =>
      core.log.info(
        { operator, caller, method, path: path.split("?", 1)[0], keepsChanges },
        "the console has tried a request",
      ),
  };
  const trial = tryView({ ...as, ...trials, catalog, hasGraphQL: graphql !== null });
  const dataPage = dataView({ ...as, ...trials, catalog });
  const check = new RowAccessCheck({ database, catalog });
  const { publication, manager } = opened.changes;
  const readSetup = (table: Table) => {
    const read = { missing: core.changes.missing, publication, isManaged: manager === "service" };
    return readChangesSetup(database.catalog, table, read, { schemas: config.dbSchemas, logins });
  };
  const changes = new MissingChangeCheck({
    ...{ rights: core.rights, access: check, anonymousRole: config.dbAnonRole },
    ...{ logins, readSetup },
  });
  const why = whyView({
    ...{ ...as, catalog, check, changes },
    filterLimits: () => core.rights.filterLimits,
    loginOf: (role) => decodeURIComponent(new URL(opened.logins[database.loginOf(role)]).username),
  });
  const readStatements = () => readActivity(database.catalog);
  const slow = new SlowTransactions();
  database.onSlow = (...transaction) => slow.add(...transaction);
  const waitingTasks = async () => tasks?.countWaiting() ?? null;
  const live = liveView({ metrics, activity: readStatements, waitingTasks });
  const send = adminSender(core);
  const ofAccounts = send === null ? [] : [usersView(send), eventsView(send)];
  const ofParts = core.parts.flatMap((part) => part.consolePages?.(core) ?? []);
  const activity = activityView({
    ...{ advice, metrics, waitingTasks, activity: readStatements, send },
    failedTasks: async (limit) => tasks?.failed(limit) ?? [],
    slow: () => slow.all,
    ofParts: ofParts.flatMap(({ newest }) => newest ?? []),
  });
  const { isOperator } = operatorAccess(config);
  const router = consolePages({
    sessions: new ConsoleSessions({ callers, isOperator, secret, isSecure: url.startsWith("https:") }),
    views: [
      ...[access, schema, why].map(fresh),
      dataPage,
      trial,
      live,
      activity,
      ...ofAccounts,
      ...ofParts.map(viewOf),
    ],
    links: core.links,
    applicationLinks: core.application.consoleLinks,
    // ADMIN_PORT does not serve the page.
    accountSignIn: core.hasAccountPages && config.adminPort === 0 ? SIGN_IN_PATH : null,
  });
  return new ExpressInterface({ routers: [router], onInternalError: core.onInternalError });
}

const viewOf = ({ render, ...page }: ConsolePage): View => ({ ...page, render: ({ query }) => render(query) });

/** Finds an account by username, e-mail or id. */
const accountFinder = (database: Database) => async (login: string) =>
  (await findAccount(database, login)) ?? (/^[1-9]\d{0,17}$/.test(login) ? findAccountOf(database, login) : null);

/** The response that the console shows, and the time that it may take. */
const LIMITS = { size: 1_048_576, timeout: 30_000 };

/** The same for an export of security events. */
const EXPORT_LIMITS = { ...LIMITS, size: 16_777_216 };

/** Sends requests of an operator to the routes of authentication. Null where users do not sign in at the service. */
function adminSender({ auth, callers, pipeline }: Core): SendRequest | null {
  if (auth === null) return null;
  const { listener } = pipeline("auth", callers);
  return (request, from) => sendInProcess(listener, { ...request, address: auth.addressOf(from) }, EXPORT_LIMITS);
}

/** Sends requests of the console through a pipeline that has the interfaces of the service, and the chosen caller. */
function trialSender({ callers, pipeline }: Core) {
  return async (request: InProcessRequest, caller: Caller, operator: string, keepsChanges: boolean): Promise<Tried> => {
    const trial = new ExplainedTrial(operator, keepsChanges);
    const phases = new Phases();
    const { listener } = pipeline("data", { identify: (sent) => callers.identifyAs(sent, { caller, trial }) }, phases);
    const start = performance.now();
    const response = await sendInProcess(listener, request, LIMITS);
    const milliseconds = performance.now() - start;
    return { response, milliseconds, phases: phases.all, transactions: trial.transactions };
  };
}
