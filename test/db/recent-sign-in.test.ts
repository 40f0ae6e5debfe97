import { describe, expect, test } from "vitest";
import { useTransactions } from "../support/roles.ts";

const inTransaction = useTransactions();
const MINUTE = 60_000;

describe("auth.has_recent_sign_in()", () => {
  const ago = (seconds: number) => Math.floor(Date.now() / 1000) - seconds;
  test.each<[string, unknown, boolean, string?]>([
    ["a sign-in of a moment ago", { auth_time: ago(0) }, true],
    ["a sign-in of nine minutes ago", { auth_time: ago(540) }, true],
    ["a sign-in of eleven minutes ago", { auth_time: ago(660) }, false],
    ["a longer RECENT_SIGN_IN", { auth_time: ago(660) }, true, "900"],
    ["RECENT_SIGN_IN=0", { auth_time: ago(0) }, false, "0"],
    ["a token without auth_time", { sub: "1" }, false],
    ["an anonymous caller", {}, false],
    ["auth_time as text", { auth_time: String(ago(0)) }, false],
    ["auth_time as an array", { auth_time: [ago(0)] }, false],
    ["a huge number", { auth_time: -1e300 }, false],
  ])("for %s", (_what, claims, expected, seconds = "600") =>
    inTransaction(async (db) => {
      // As the owner, who has no claims.
      await db.client.query("select set_config('request.jwt.claims', $1, true)", [JSON.stringify(claims)]);
      await db.client.query("update auth_private.settings set value = $1 where name = 'recent_sign_in'", [seconds]);
      const { rows } = await db.client.query("select auth.has_recent_sign_in() as recent");
      expect(rows).toEqual([{ recent: expected }]);
    }),
  );
});

test("require_recent_sign_in raises CS401 unless the sign-in is recent", () =>
  inTransaction(async (db) => {
    const [ada] = await db.users("Ada");
    const text = "select auth.require_recent_sign_in()";
    expect(await db.as(ada!).outcome(text)).toBe(1);
    expect(await db.as(ada!, "authenticated", Date.now() - 11 * MINUTE).outcome(text)).toBe("CS401");
    expect(await db.anon.outcome(text)).toBe("CS401");
  }));

test("users delete themselves only with a recent sign-in; admins and editors delete others at any time", () =>
  inTransaction(async (db) => {
    const [ada, admin] = await db.users("Ada", "Admin");
    const remove = "delete from users where id = $1";
    const old = Date.now() - 11 * MINUTE;
    expect(await db.as(ada!, "authenticated", old).outcome(remove, ada!.id)).toBe("CS401");
    expect(await db.as(ada!).outcome(remove, ada!.id)).toBe(1);
    expect(await db.as(admin!, "admin", old).outcome(remove, ada!.id)).toBe(1);
    expect(await db.as(admin!, "admin", old).outcome(remove, admin!.id)).toBe("CS401");
    expect(await db.editor.outcome(remove, ada!.id)).toBe(1);
    expect(await db.service.outcome(remove, ada!.id)).toBe(1);
  }));
