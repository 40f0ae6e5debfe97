type Options = Readonly<Record<string, string>>;

/**
 * Converts a libpq connection string of either kind to the URL that this service accepts, with user, password and host
 * before the path.
 *
 *   libpqUrl("host=/tmp dbname=shop user=web")              // postgres://web@%2Ftmp/shop
 *   libpqUrl("postgresql://db/shop?user=web&password=p@ss") // postgres://web:p%40ss@db/shop
 * A string that cannot be converted, such as one with several hosts, is returned unchanged.
 * Source: PostgreSQL docs, "Connection Strings".
 */
export function libpqUrl(text: string): string {
  const options = /^postgres(ql)?:\/\//.test(text) ? optionsOfUrl(text) : optionsOfKeywords(text);
  return options?.host && !options.host.includes(",") ? writeUrl(options) : text;
}

const URL_PARTS =
  /^postgres(?:ql)?:\/\/(?:([^:@/]*)(?::([^@/]*))?@)?(\[[^\]]*\]|[^:/?]*)(?::(\d*))?(?:\/([^?]*))?(?:\?(.*))?$/;

function optionsOfUrl(text: string): Options | null {
  const [, user, password, host, port, dbname, query] = URL_PARTS.exec(text) ?? [];
  if (host === undefined) return null;
  const authority = Object.entries({ user, password, host: host.replace(/^\[|\]$/g, ""), port, dbname });
  try {
    const decoded = authority.filter(([, value]) => value).map(([name, value]) => [name, decodeURIComponent(value!)]);
    return { ...Object.fromEntries(decoded), ...Object.fromEntries(new URLSearchParams(query)) };
  } catch {
    return null;
  }
}

const WORD = /\s*(\w+)\s*=\s*(?:'((?:[^'\\]|\\.)*)'|((?:[^\s'\\]|\\.)*))\s*/y;

/** `host=db password='it\'s'` */
function optionsOfKeywords(text: string): Options | null {
  const options: Record<string, string> = {};
  WORD.lastIndex = 0;
  while (WORD.lastIndex < text.length) {
    const word = WORD.exec(text);
    if (word === null) return null;
    options[word[1]!] = (word[2] ?? word[3]!).replace(/\\(.)/g, "$1");
  }
  return options;
}

function writeUrl({ user = "", password = "", host = "", port = "", dbname = "", ...others }: Options): string {
  const name = host.includes(":") ? `[${host}]` : encodeURIComponent(host);
  const login = [user, password]
    .filter((part) => part !== "")
    .map(encodeURIComponent)
    .join(":");
  // Without uselibpqcompat, pg treats `require` as `verify-full`.
  const query = new URLSearchParams(others.sslmode ? { ...others, uselibpqcompat: "true" } : others).toString();
  return [
    "postgres://",
    login && `${login}@`,
    name,
    port && `:${port}`,
    `/${encodeURIComponent(dbname)}`,
    query && `?${query}`,
  ].join("");
}
