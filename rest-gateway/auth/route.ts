import { type Request, type RequestHandler, type Response, Router } from "express";
import type { z } from "zod";
import type { Caller } from "../../db/caller.ts";
import { identityOf } from "../../gate/pipeline/exchange.ts";
import { byMethod, type Methods } from "../../gate/pipeline/express.ts";
import { ClientGone } from "../../gate/pipeline/response.ts";
import { Sender } from "../../identity/sender.ts";
import { problem } from "../../problems/problem.ts";
import { isUuid } from "../conventions/parameters.ts";
import { invalidId } from "../conventions/problem.ts";
import type { Auth } from "./auth.ts";
import { parse, readBody } from "./bodies.ts";
import type { BrowserSignIn } from "./federated.ts";
import type { IssueCall } from "./issue.ts";
import { failWithPage } from "./pages/failure.ts";
import type { CurrentSignIn } from "./session-repository.ts";
import { sessionOf } from "./sessions.ts";
import type { Client } from "./throttle.ts";

/** The credentials that a route requires, and who is signed in with them. */
const CREDENTIALS = {
  none: async () => null,
  user: userOf,
  account: ownerOf,
  signIn: signInOf,
  session: sessionOf,
  operator: operatorOf,
};

export type Credential = keyof typeof CREDENTIALS;
type SignedIn<Access extends Credential> = Awaited<ReturnType<(typeof CREDENTIALS)[Access]>>;

/** A request to a route of authentication, after its credential, the UUID in its path and its body have been checked. */
export type Call<Access extends Credential = Credential, Body = unknown> = {
  readonly auth: RoutedAuth;
  readonly request: Request;
  readonly response: Response;
  readonly client: Required<Client>;
  readonly signedIn: SignedIn<Access>;
  /** The UUID in the path, in lower case; "" if there is none. */
  readonly id: string;
  readonly body: Body;
  /** Of a sign-in at a provider, for the page that reports its failure. */
  readonly attempt: BrowserSignIn;
};

/** The services of the routes. */
export type RoutedAuth = Auth & {
  /**
   * Creates a user with an account. In resources/, because the catalog and the resource describe the body. Nothing if it has sent the
   * response: the e-mail must be confirmed first.
   */
  signUp(call: IssueCall): Promise<object | undefined>;
};

/** The body of a request or a response: described in zod, or, at sign-up, by the catalog. */
export type BodySchema = z.ZodType | "Registration" | "Registered";

/** A route of authentication: what the router serves, and what the OpenAPI document describes. */
export type Route<Access extends Credential = Credential, Body = unknown, Sent = unknown> = {
  readonly operationId: string;
  readonly summary: string;
  readonly description?: string;
  readonly query?: QueryParameters;
  readonly credential: Access;
  /** Rejects requests from pages of other origins. For routes that sign in or out without a CSRF token. */
  readonly sameOrigin?: true;
  /** Refuses a network of which too many passwords wait, before the body is read. */
  readonly verifiesPassword?: true;
  /** The body, which is parsed before the handler is called. */
  readonly body?: z.ZodType<Body>;
  /** A body that the handler reads: it is optional, has one of several schemas, or is described by the catalog. */
  readonly handlerBody?: readonly BodySchema[];
  readonly isBodyOptional?: true;
  /** The schema of a form, in place of a JSON body. The handler reads it. */
  readonly form?: z.ZodType;
  readonly answer: Answer<Sent>;
  readonly otherAnswer?: Answer<unknown>;
  /** Statuses of errors, besides those that follow from the credential, the path and the body. */
  readonly problems?: readonly (400 | 401 | 403 | 409)[];
  /** The title of the page that reports an error to a browser; without it, errors are JSON. */
  readonly errorPage?: string;
  /** Returns the response body; nothing if there is none, or if it has been sent. */
  readonly handle: (call: Call<NoInfer<Access>, Body>) => Promise<ReadonlyDeep<Sent>> | Promise<void>;
};

/** What each parameter is, by name, and its schema unless it is any text: `{ page: ["From 1.", { type: "integer", minimum: 1 }] }` */
export type QueryParameters = Readonly<Record<string, string | readonly [about: string, schema: ParameterSchema]>>;

type ParameterSchema = {
  readonly type: "string" | "integer";
  readonly format?: string;
  readonly minimum?: number;
  readonly enum?: readonly string[];
  readonly default?: string;
};

export type Answer<Sent> = {
  readonly status: 200 | 201 | 202 | 204 | 302 | 303;
  readonly about: string;
  /** The schemas of the response body, of which one matches; empty for a response without a body. */
  readonly schemas: readonly BodySchema[];
  /** Only a type: what the handler returns. */
  readonly sent?: Sent;
  /** The media type that the response has instead of JSON, or may have as an alternative to JSON. */
  readonly text?: `${string}/${string}`;
  readonly headers?: readonly ("Location" | "Set-Cookie")[];
};

type ReadonlyDeep<T> = T extends object ? { readonly [Name in keyof T]: ReadonlyDeep<T[Name]> } : T;

/** Methods and paths, such as `"GET /auth/keys/{keyId}"`. */
export type Routes = Readonly<Record<`${Method} /${string}`, Route>>;

/** A route whose handler fits its credential and its bodies. */
export const route = <Access extends Credential, Body, Sent>(described: Route<Access, Body, Sent>): Route =>
  described as unknown as Route;

/** `"GET /auth/keys/{keyId}"` → `["GET", "/auth/keys/{keyId}"]` */
export const splitKey = (key: string) => key.split(" ") as [Method, string];

type Method = "GET" | "POST" | "PATCH" | "DELETE";

/** Names in a path that are UUIDs, such as `keyId`. */
export const isIdName = (name: string): boolean => name.endsWith("Id");

type Served = Pick<Route, "verifiesPassword"> & Partial<Pick<Route, "answer">>;

/** Serves routes below `base`; other methods get 405. `run` returns the response body, or nothing, as `handle` does. */
export function routerOf<R extends Served>(
  auth: RoutedAuth,
  routes: Readonly<Record<string, R>>,
  run: (route: R, call: Call<"none">) => Promise<unknown>,
  base = "",
): Router {
  const methods = new Map<string, Record<string, RequestHandler>>();
  for (const [key, route] of Object.entries(routes)) {
    const [method, path] = splitKey(key);
    methods.set(path, { ...methods.get(path), [method]: handlerOf(auth, route, (call) => run(route, call)) });
  }
  const router = Router({ strict: true, caseSensitive: true });
  for (const [path, handlers] of methods)
    router.all(base + path.replace(/\{(\w+)\}/g, ":$1"), byMethod(handlers as Methods));
  return router;
}

function handlerOf(auth: RoutedAuth, route: Served, run: (call: Call<"none">) => Promise<unknown>): RequestHandler {
  return async (request, response) => {
    const call = callOf(auth, request, response);
    if (route.verifiesPassword) auth.hashing.requirePlace(call.client);
    const sent = await run(call);
    if (response.headersSent) return;
    const { status = sent === undefined ? 204 : 200 } = route.answer ?? {};
    response.status(status);
    // What is created is below the path, unless the handler has set where.
    if (status === 201 && !response.hasHeader("Location"))
      response.location(`${request.path}/${encodeURIComponent(String((sent as { id: unknown }).id))}`);
    if (sent === undefined) response.end();
    else response.json(sent);
  };
}

/** A request of which nothing is checked yet. Its response is not cached. */
export function callOf(services: RoutedAuth, request: Request, response: Response): Call<"none"> {
  response.set("Cache-Control", "no-store");
  const address = services.addressOf(request);
  const auth = { ...services, ...services.from(new Sender(address)) };
  const client = { address, signal: new ClientGone(response) };
  const attempt: BrowserSignIn = { provider: null, start: null };
  return { auth, request, response, client, signedIn: null, id: "", body: undefined, attempt };
}

/** Runs a route of the contract. */
export async function runRoute(described: Route, call: Call): Promise<unknown> {
  const { errorPage } = described;
  const sent = runChecked(described, call);
  return errorPage === undefined ? sent : sent.catch((error) => failWithPage(call, error, errorPage));
}

async function runChecked(described: Route, call: Call): Promise<unknown> {
  const { auth, request } = call;
  // Otherwise a page of another origin could sign the user in to an account of the attacker, who then sees what they enter.
  if (described.sameOrigin) auth.sameOrigin.require(request.headers);
  const signedIn = await CREDENTIALS[described.credential](call);
  const id = idOf(request);
  const body = described.body && parse(described.body, await readBody(request, auth.limits));
  return described.handle({ ...call, signedIn, id, body });
}

function idOf({ params }: Request): string {
  const [name] = Object.keys(params).filter(isIdName);
  if (name === undefined) return "";
  const id = String(params[name]);
  const what = `${name.slice(0, -2)} id: it must be a UUID`;
  if (!isUuid(id)) throw invalidId(id, what, { field: "id", message: "must be a UUID" });
  return id.toLowerCase();
}

/** A signed-in user, who manages their own account. */
export type Owner = { readonly id: string; readonly caller: Caller };

/** The caller, who is a user, with any credential. Rejects with Problem. */
async function userOf({ request }: Call): Promise<Owner> {
  const caller = await identityOf(request).caller();
  const { sub } = caller.claims;
  if (typeof sub !== "string") throw problem("login required");
  return { id: sub, caller };
}

/**
 * The caller, who manages their own account. An API key is not accepted: a thief could use it to create further keys, or to lock
 * the user out with a second factor. Rejects with Problem.
 */
async function ownerOf(call: Call): Promise<Owner> {
  const owner = await userOf(call);
  if (owner.caller.credential?.kind === "key") throw problem("signed in by key");
  return owner;
}

/** The roles that manage users, whatever SIGNUP says. */
export const OPERATORS: readonly string[] = ["admin", "service_role"];

/** A caller who manages users. Rejects with Problem. */
async function operatorOf({ request }: Call): Promise<Caller> {
  const caller = await identityOf(request).caller();
  if (OPERATORS.includes(caller.role)) return caller;
  throw problem(typeof caller.claims.sub === "string" ? "no permission" : "login required");
}

/** The caller, who is signed in with a token or a cookie. Rejects with Problem. */
async function signInOf({ request }: Call): Promise<Owner> {
  const caller = await identityOf(request).caller();
  const { claims, credential } = caller;
  const isSignedIn = credential?.kind === "token" || credential?.kind === "session";
  if (typeof claims.sub !== "string" || !isSignedIn) throw problem("token required");
  return { id: claims.sub, caller };
}

export const signedInBy = ({ caller }: Owner) => (caller.credential?.kind === "session" ? "session" : "token");

/** What the user is signed in with. The `sid` of another issuer's token is not one of this service. */
export const currentSignInOf = ({ id, caller: { claims, external } }: Owner): CurrentSignIn => ({
  id,
  session: external === undefined && typeof claims.sid === "string" ? claims.sid : null,
});
