import { z } from "zod";
import { libpqUrl } from "./libpq-url.ts";
import { list } from "./setting-types.ts";

/**
 * URLs of databases with several servers, of which one is the primary. libpq writes all hosts where others have one:
 * `postgres://owner:secret@a:5432,b:5432/shop`. No other code can read that, so the first stays there, and a parameter has them all.
 */

/** `a:5432,b:5432` */
const HOSTS = "hosts";
/** `postgres://owner:secret@a:5432,b:5432/shop`: what comes before the hosts, the hosts, and what follows. */
const SEVERAL = /^(postgres(?:ql)?:\/\/(?:[^/?#@]*@)?)([^/?#@,]+(?:,[^/?#@,]+)+)(.*)$/;

/**
 * Names the first of several hosts, and all of them in a parameter, so that the URL can be used as any other:
 * `…@a:5432,b:5432/shop` → `…@a:5432/shop?hosts=a:5432,b:5432`. A URL with one host stays as it is.
 */
export function withOneHost(url: string): string {
  const [, before, hosts, after] = SEVERAL.exec(url) ?? [];
  if (hosts === undefined || !hosts.split(",").every((host) => URL.canParse(`postgres://${host}`))) return url;
  const one = URL.parse(`${before}${hosts.split(",")[0]}${after}`);
  one?.searchParams.set(HOSTS, hosts);
  return one?.href ?? url;
}

/** All hosts of a URL; null if it has only one. */
export const hostsOf = (url: string): readonly string[] | null =>
  URL.parse(url)?.searchParams.get(HOSTS)?.split(",") ?? null;

/** `url` with this host alone: `b:5432` */
export function atHost(url: string, host: string): string {
  const parsed = new URL(url);
  // Of `a`, which has no port, setting the host would keep the previous one.
  parsed.port = "";
  parsed.host = host;
  parsed.searchParams.delete(HOSTS);
  return parsed.href;
}

/** The login of the primary at a replica. What the URL of the replica says of user and password is not used: roles are replicated. */
export function urlAt(replica: string, login: string): string {
  const at = new URL(replica);
  const url = new URL(atHost(login, `${at.hostname}:${at.port || "5432"}`));
  if (at.pathname.length > 1) url.pathname = at.pathname;
  for (const [name, value] of at.searchParams) url.searchParams.set(name, value);
  return url.href;
}

/** A directory of sockets as libpq writes it: `postgres://owner@/shop?host=/run/postgresql` */
const SOCKET = /^postgres(?:ql)?:\/\/(?:[^/?#@]*@)?(?::\d*)?\/[^?]*\?(?:.*&)?host=(?:\/|%2F)/i;

/**
 * Connection URL of a database. User, password and host must come before the path, except a directory of sockets: the service replaces them with those
 * of its login roles, and `?user=` or `?host=` would override the replacement.
 */
export const postgresUrl = z
  .string()
  .transform((text) => withOneHost(SOCKET.test(text) ? libpqUrl(text) : text))
  .superRefine((text, { addIssue }) => {
    const isUrl = /^postgres(ql)?:\/\/\S+$/.test(text) && URL.canParse(text) && new URL(text).hostname !== "";
    if (!isUrl)
      return addIssue(
        "must look like postgres://user:password@host:5432/database, with %40 for @ in a password, %20 for a space, and so on",
      );
    const { searchParams } = new URL(text);
    if (!["read-write", "primary", null].includes(searchParams.get("target_session_attrs")))
      return addIssue("may have target_session_attrs=read-write, and no other value: the service writes");
    if (!["user", "password", "host"].some((name) => searchParams.has(name))) return;
    addIssue(
      "must name user, password and host before the path; write a socket directory as %2Fvar%2Frun%2Fpostgresql",
    );
  });

/** Several of them, separated by commas. */
export const postgresUrls = list.pipe(z.array(postgresUrl));
