import { expect, test } from "vitest";
import { libpqUrl } from "../../config/libpq-url.ts";

test.each([
  ["postgres://web:secret@db:5432/shop", "postgres://web:secret@db:5432/shop"],
  ["postgresql://web@[::1]/shop", "postgres://web@[::1]/shop"],
  ["postgresql:///shop?host=/run/postgresql&user=web", "postgres://web@%2Frun%2Fpostgresql/shop"],
  ["postgres://web:p%40ss%2Fword@db/shop", "postgres://web:p%40ss%2Fword@db/shop"],
  ["postgres://web:what?@db/shop", "postgres://web:what%3F@db/shop"],
  ["postgres://db/shop?sslmode=require", "postgres://db/shop?sslmode=require&uselibpqcompat=true"],
  ["host=db port=5433 dbname=shop user=web", "postgres://web@db:5433/shop"],
  ["host = /tmp user=web password='it\\'s a \\\\ secret'", "postgres://web:it's%20a%20%5C%20secret@%2Ftmp/"],
  // A string without an equivalent URL is unchanged, and rejected later as it was written.
  ["postgres://one:5432,two:5432/shop", "postgres://one:5432,two:5432/shop"],
  ["host=one,two dbname=shop", "host=one,two dbname=shop"],
  ["postgres://%zz@db/shop", "postgres://%zz@db/shop"],
  ["postgresql://", "postgresql://"],
  ["dbname=shop", "dbname=shop"],
  ["host=db '", "host=db '"],
])("the connection string %s becomes a URL", (text, url) => expect(libpqUrl(text)).toBe(url));
