import { type Advice, countsOf, lineOf, sentenceOf } from "../../db/findings/finding.ts";
import { within } from "../../db/repeat.ts";
import { problem, RETRY_SECONDS } from "../../problems/problem.ts";
import { type Destination, type Exchange, setHead } from "../pipeline/exchange.ts";
import type { AlwaysOnInterface, HttpEnvelope, ServiceState } from "../pipeline/pipeline.ts";
import { type OperatorAccess, refusalForOperators } from "./operator.ts";

export type Health = {
  state(): ServiceState;
  /** Rejects when the database does not respond. */
  ping(): Promise<void>;
  /** Why the service should not receive requests yet although the database responds. Null if it should. */
  fault(): string | null;
  /** Facts for operators. Degraded: requests are answered, but a part of the service is outdated or missing. */
  report(): { readonly isDegraded: boolean; readonly details: Readonly<Record<string, unknown>> };
  /** Who may read the details, which name tables and constraints, and how to read rows that should be hidden. */
  readonly access: OperatorAccess;
};

/** Milliseconds after which the database counts as unavailable. */
const PING_TIMEOUT = 3000;

const ALLOW = "GET, HEAD, OPTIONS";

/**
 * `GET /live`: 200 while the process runs, without a query. `GET /ready`: 200 when the service should receive requests, otherwise
 * 503 with the reason. `GET /health`: the same with details for operators. A service whose GraphQL schema cannot be built is ready,
 * and `degraded`.
 */
export function healthInterface(health: Health, reject: HttpEnvelope["reject"]): AlwaysOnInterface {
  return {
    isAlwaysOn: true,
    reject,
    async handle(destination) {
      const { request, response, head } = destination;
      const { method, url } = request;
      head.notes.route = url!.split("?", 1)[0]!;
      if (method === "GET" || method === "HEAD") {
        return send(destination, await replyTo(head.notes.route, destination, health));
      }
      response.setHeader("Allow", ALLOW);
      if (method !== "OPTIONS")
        return reject(destination, problem("method not allowed", { method: method!, allowed: ALLOW }));
      setHead(response, head);
      response.writeHead(204).end();
    },
  };
}

type Reported = {
  /** Null if GraphQL is not served. */
  readonly graphql: {
    readonly isCurrent: boolean;
    readonly health: { readonly schema: string; readonly omissions?: readonly string[] };
  } | null;
  readonly advice: Advice | null;
  /** How committed changes are read. */
  readonly changes: object;
  /** Why the service does not notice changes of the schema; null if it does. */
  readonly schemaChanges: string | null;
  /** What other instances on the database do not share with this one; null without others. */
  readonly instances: string | null;
  /** Why REDIS_URL cannot be used now; null if it can, or is unset. */
  readonly redis: string | null;
};

/** The part of `/health` about GraphQL, the changes and the advisor. */
export function reportOf({
  graphql,
  advice,
  changes,
  schemaChanges,
  instances,
  redis,
}: Reported): ReturnType<Health["report"]> {
  const { omissions = [], ...schema } = graphql?.health ?? { schema: "not served" };
  const { findings = [] } = advice ?? {};
  const lists = graphql ? findings.filter(({ rule }) => rule === "foreign-key-without-index").map(sentenceOf) : [];
  const leftOut = [...omissions, ...lists];
  return {
    isDegraded: graphql?.isCurrent === false,
    details: {
      graphql: { ...schema, ...(leftOut.length > 0 && { omissions: leftOut }) },
      changes,
      ...(schemaChanges && { schemaChanges }),
      ...(instances && { instances }),
      ...(redis && { redis }),
      ...(advice && { advisor: { ...countsOf(findings), findings: findings.map(lineOf) } }),
    },
  };
}

type Reply = { readonly status: number; readonly body: object };

const OK: Reply = { status: 200, body: { status: "ok" } };
const unavailable = (reason: string): Reply => ({ status: 503, body: { status: "unavailable", reason } });

async function replyTo(path: string, destination: Destination | Exchange, health: Health): Promise<Reply> {
  if (path === "/live") return OK;
  const reason = await reasonOf(health);
  if (reason !== null) return unavailable(reason);
  if (path === "/ready") {
    const fault = health.fault();
    return fault === null ? OK : unavailable(fault);
  }
  const { isDegraded, details } = health.report();
  const status = isDegraded ? "degraded" : "ok";
  return { status: 200, body: (await isForOperator(destination, health)) ? { status, details } : { status } };
}

/** Also false if the caller cannot be identified now: the status is sent in any case. */
const isForOperator = (destination: Destination | Exchange, { access }: Health): Promise<boolean> =>
  "identity" in destination
    ? refusalForOperators(destination, access).then(
        (refusal) => refusal === null,
        () => false,
      )
    : Promise.resolve(false);

async function reasonOf({ state, ping }: Health): Promise<string | null> {
  if (state() !== "ready") return state();
  const answered = ping().then(
    () => true,
    () => false,
  );
  return (await within(PING_TIMEOUT, answered)) ? null : "the database does not answer";
}

function send({ response, head }: Destination, { status, body }: Reply): void {
  const text = JSON.stringify(body);
  setHead(response, head);
  if (status === 503) response.setHeader("Retry-After", RETRY_SECONDS);
  response.writeHead(status, {
    "Cache-Control": "no-store",
    "Content-Type": "application/json; charset=utf-8",
    "Content-Length": Buffer.byteLength(text),
  });
  response.end(text);
}
