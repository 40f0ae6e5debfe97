import { z } from "zod";
import { parsedBy } from "./config-error.ts";
import { readFile } from "./text-file.ts";

/** What REDIS_URL names: one server, the Sentinels that know the primary, or some nodes of a cluster. */
export type RedisUrl = {
  readonly kind: "server" | "sentinel" | "cluster";
  readonly hosts: readonly RedisHost[];
  /** The name by which Sentinels know the primary; "" without Sentinels. */
  readonly primary: string;
  readonly login: RedisLogin;
  readonly database: number;
  /** How to sign in at the Sentinels. */
  readonly sentinelLogin: RedisLogin;
  /** Null without TLS. Files in PEM format: who has signed the certificates of the servers, and the certificate of this client. */
  readonly tls: { readonly ca: string; readonly cert: string; readonly key: string } | null;
};

export type RedisHost = { readonly host: string; readonly port: number };
/** "" for what is not sent. */
export type RedisLogin = { readonly username: string; readonly password: string };

const PARTS = /^redis(s?)(?:\+(sentinel|cluster))?:\/\/(?:([^/?#\s]*)@)?([^@/?#\s]+)(?:\/([^?#\s]*))?(?:\?([^#\s]*))?$/;
const FORMS =
  "must look like redis://user:password@host:6379, redis+sentinel://user:password@host1:26379,host2:26379/primary " +
  "or redis+cluster://user:password@host1:6379,host2:6379, with rediss instead of redis for TLS";

/** The parameters, named as libpq does in URLs of databases. */
const TLS_FILES = { ca: "sslrootcert", cert: "sslcert", key: "sslkey" } as const;
const SENTINEL_LOGIN = { username: "sentinel_user", password: "sentinel_password" } as const;

/** Throws TypeError with what the URL must be: the message continues the name of the setting. */
export function parseRedisUrl(text: string): RedisUrl {
  const [, s, kind = "server", login = "", hosts = "", path = "", query = ""] = PARTS.exec(text) ?? fail(FORMS);
  const parameters = new URLSearchParams(query);
  const take = (name: string) => {
    const value = parameters.get(name) ?? "";
    parameters.delete(name);
    return value;
  };
  const url = {
    kind: kind as RedisUrl["kind"],
    hosts: hosts.split(",").map((host) => hostOf(host, kind === "sentinel" ? 26_379 : 6379)),
    ...placeOf(kind as RedisUrl["kind"], path),
    login: loginOf(login),
    sentinelLogin: { username: take(SENTINEL_LOGIN.username), password: take(SENTINEL_LOGIN.password) },
    tls: { ca: take(TLS_FILES.ca), cert: take(TLS_FILES.cert), key: take(TLS_FILES.key) },
  };
  const [unknown] = parameters.keys();
  if (unknown !== undefined) fail(`must not have the parameter ${unknown}`);
  if (url.hosts.length > 1 && kind === "server")
    fail("names several hosts: they are redis+sentinel://…/primary, if Sentinels, or redis+cluster://…");
  if (url.sentinelLogin.password !== "" && kind !== "sentinel") fail("has a password of Sentinels, and names none");
  const hasFiles = Object.values(url.tls).some((file) => file !== "");
  if (hasFiles && s === "") fail("names certificates, which require rediss instead of redis");
  if ((url.tls.cert === "") !== (url.tls.key === "")) fail("must have both sslcert and sslkey, or none");
  return { ...url, tls: s === "" ? null : url.tls };
}

/** Parsing the setting reads the files of its certificates: one that is missing is found before the database is changed. */
export const redisUrl = parsedBy(z.string(), (text) => {
  const { tls } = parseRedisUrl(text);
  for (const file of Object.values(tls ?? {})) if (file !== "") readFile(file);
  return text;
});

function fail(message: string): never {
  throw new TypeError(message);
}

function hostOf(text: string, port: number): RedisHost {
  const url = URL.parse(`redis://${text}`) ?? fail(FORMS);
  if (url.hostname === "") fail(FORMS);
  return { host: url.hostname.replace(/^\[|\]$/g, ""), port: url.port === "" ? port : Number(url.port) };
}

/** What the path names: a database, after the name of the primary if Sentinels know that. */
function placeOf(kind: RedisUrl["kind"], path: string): Pick<RedisUrl, "primary" | "database"> {
  const [primary, database = ""] = kind === "sentinel" ? path.split(/\/(?=[^/]*$)/) : ["", path];
  if (kind === "sentinel" && primary === "")
    fail("must name the primary after the Sentinels: redis+sentinel://…/mymaster");
  if (kind === "cluster" && path !== "") fail("must not name a database of a cluster, which has only one");
  if (!/^\d{0,9}$/.test(database)) fail(FORMS);
  return { primary: decode(primary!), database: Number(database) };
}

function loginOf(text: string): RedisLogin {
  const [username, ...password] = text.split(":");
  return { username: decode(username!), password: decode(password.join(":")) };
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return fail(FORMS);
  }
}
