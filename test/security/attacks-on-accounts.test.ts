import { readFileSync } from "node:fs";
import { request } from "node:http";
import { expect, test } from "vitest";
import { useService } from "../support/http-client.ts";
import { linkIn, startMailServer } from "../support/mail-server.ts";

const server = await startMailServer();
const client = useService(server.settings);

/** File → the attacks of SECURITY.md that it tests, each with the name of its test. */
const TESTS: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  "parts/mail/reset.test.ts": {
    "the token of a reset reaches another site in Referer":
      "GET shows a form, and changes nothing however often it is opened",
    "an open redirect after a reset or a sign-in": "refuses to continue at the page of another origin",
    "two resets at the same time": "takes a token once, also of two requests at the same time",
    "time or statements tell whether an address has an account":
      "answers every address alike, with the same statements and no hash, whether it has an account or not",
  },
  "browser/account-passkeys.all.test.ts": {
    "the same, on a page that loads the script for passkeys":
      "the page of a reset link takes the passkey in place of the code, and sends its token to no page as Referer",
  },
  "security/attacks-on-accounts.test.ts": {
    "a Host header changes the link of an e-mail": "a Host header of an attacker is not in the link of an e-mail",
  },
  "parts/supabase-auth/link-sign-in.all.test.ts": {
    "the same at `/auth/v1`, with another `redirect_to`": "URL to return to gets no session, wherever it is named",
    "the scanner of a mail server opens the link that signs an application in":
      "after a magic link, which is opened as often as scanners like, and signs a new user up too",
    "a code in the URL of an application is stolen or replayed":
      "a link can be pressed again until a code of it was exchanged, and only the client that has begun exchanges one",
    "a confirmation that was pressed is used to sign in elsewhere":
      "a confirmation that was pressed on a device without the verifier has confirmed, and leads to the application again",
    "a confirmation is pressed in a browser of another user":
      "session in the browser confirms nothing of another account",
  },
  "parts/mail/sign-in.all.test.ts": {
    "an account is registered for the address of another person":
      "takes an account whose e-mail was not confirmed from the person who has registered it",
    "codes of six digits are guessed": "is no longer valid after 5 wrong ones, also at the same time; the link is",
    "the code of an e-mail is replayed": "signs in once, with spaces and another spelling of the address too",
  },
  "security/claimed-accounts.all.test.ts": {
    "the same, and the owner presses the link that confirms it":
      "the password of the other person does not become theirs: a new one replaces it",
    "the same, with a second factor or a passkey": "ends with a reset of the password, its sign-ins too: %s",
    "the mailbox is used to get past the second factor of a confirmed account":
      "stays if its code is sent, or after its user has confirmed the e-mail",
    "the same with `verifyOtp` of `/auth/v1` and a `password`":
      "on /auth/v1, verifyOtp with an empty password signs them in, and the password of the other person ends",
    "the same, with an account of a provider without a password":
      "an attacker who has created an account at a provider, without a password, keeps nothing of it when the owner of its e-mail signs in",
  },
  "security/links-of-strangers.all.test.ts": {
    "an anonymous user enters the address of another person and a password":
      "confirms with a new password alone, which ends the password and the sign-ins of that user",
    "a user requests the address of another person as the new e-mail":
      "moves no account: not by the API, not by its page, and not with verifyOtp",
  },
  "parts/mail/notices.all.test.ts": {
    "an account is moved to the address of another person, and back":
      "keeps links that the new address receives from signing in and from a reset, until it cannot be undone any more",
    "mail bombing by notices":
      "of one kind is sent to a mailbox at most five times in an hour, for all accounts together",
  },
  "parts/mail/sending.all.test.ts": {
    "mail bombing with other spellings of one mailbox":
      "another spelling of a mailbox, which no account can have, gets no e-mail and counts for no limit",
    "mail bombing": "the limits of a recipient, of a network and of all count known and unknown addresses alike",
  },
  "security/hashed-after-limits.test.ts": {
    "passwords beside wrong codes make the service hash, or tell by their time":
      "hashes none with a wrong code, whether the address has an account or not",
  },
  "parts/mail/sign-up.all.test.ts": {
    "a client registers an address, and learns from a login whether it had an account":
      "a client that registers an address does not learn from logins with the password whether it had an account",
    "an invitation is used twice": "the link makes one account, whose e-mail is confirmed",
    "a stolen sign-in moves the account to another e-mail":
      "another e-mail replaces the previous one after the link that it has received was used, and the previous one undoes it",
  },
  "security/stalled-changes.test.ts": {
    "a thief completes an open request after the owner has signed out":
      "a request that has begun before a sign-out changes nothing after it",
  },
  "rest-gateway/auth/mfa-login.test.ts": {
    "a code of an app or a backup code is replayed": "is valid once, for all logins together",
  },
  "security/ended-sign-ins.test.ts": {
    "a thief requests another e-mail, and confirms it after the owner has signed out":
      "a change of the e-mail that is not confirmed ends %s",
    "a thief links an identity after the owner has signed out":
      "no identity is linked to an account whose session has ended meanwhile",
  },
  "parts/supabase-auth/second-factor.test.ts": {
    "an app or a passkey is begun with the password, and completed after the owner has enabled a second factor":
      "the password alone enables no factor that was begun before another one was enabled",
  },
  "parts/passkeys/passkeys.test.ts": {
    "a passkey is registered for another user":
      "a credential is added once, by the session that has asked for it, and needs the verification of the user",
    "a thief with a stolen token adds a passkey": "a passkey confirms a new password and an old sign-in",
    "a thief with a stolen token deletes the passkey":
      "a passkey is listed, renamed and deleted with the password and a signature",
    "the signature of a passkey is replayed":
      "a signature is accepted once, within five minutes, and only of the challenge that it is for",
    "the same, with several requests at the same time": "two parallel uses of a signature have one success",
    "a page of another site passes on what a passkey has signed for it":
      "a signature of a page of another origin is refused with the reason",
    "a signature is for another domain, in a frame, of another type, or without a PIN": "a signature %s is refused",
    "a credential is registered for another domain or by another site":
      "a credential of another domain, or of a page of another origin, is not added",
    "an authenticator is cloned": "a counter that does not grow is refused and reported: the passkey was copied",
    "a lost or stolen device signs in": "a backup code deletes a lost passkey",
    "the passkey of another account completes a login": "a passkey of another user does not complete a login",
    "requests for challenges tell who has an account, or fill the database":
      "a challenge is the same for everyone until a password is right, and is not stored",
  },
  "parts/mail/passkeys.test.ts": {
    "a change of the e-mail is undone, but the thief keeps a passkey":
      "a user with a passkey changes the e-mail and keeps it, and an undo of that change ends it",
    "a reset of the password by a thief of the mailbox":
      "a reset of the password needs the passkey or a backup code, and keeps the passkey",
  },
  "parts/supabase-auth/sessions.ts": {
    "a client of `/auth/v1` goes on with a revoked key beside a token":
      "refuses a wrong API key, also where an access token decides, and needs none",
  },
  "security/private-emails.all.test.ts": {
    "the e-mails of users are collected": "filters and orders by e-mail depend on no e-mail",
  },
};

test("SECURITY.md lists the attacks that have a test", () => {
  const [, table = ""] = /#### Attacks on accounts\n\n([\s\S]*?)\n\n/.exec(readFileSync("SECURITY.md", "utf8")) ?? [];
  const listed = [...table.matchAll(/^\| ([^|]+) \|/gm)].map(([, attack]) => attack).slice(1);
  expect(listed.toSorted()).toEqual(Object.values(TESTS).flatMap(Object.keys).toSorted());
});

test.each(Object.keys(TESTS))("the tests against these attacks exist: %s", (file) => {
  const text = readFileSync(`test/${file}`, "utf8");
  for (const name of Object.values(TESTS[file]!)) expect(text).toContain(`("${name}", async`);
});

test("a Host header of an attacker is not in the link of an e-mail", async () => {
  const { hostname, port, origin } = new URL(client.service().url);
  const body = JSON.stringify({ email: "ada@example.com" });
  const headers = {
    host: "evil.example",
    "x-forwarded-host": "evil.example",
    "content-type": "application/json",
    "content-length": body.length,
  };
  const status = await new Promise((resolve, reject) => {
    const sent = request({ hostname, port, path: "/auth/forgot", method: "POST", headers }, (response) => {
      response.resume();
      resolve(response.statusCode);
    });
    sent.on("error", reject).end(body);
  });
  expect(status).toBe(202);
  const mail = await server.next("ada@example.com");
  expect(linkIn(mail).url.startsWith(`${origin}/auth/link?token=`)).toBe(true);
  expect(mail.text + mail.html).not.toContain("evil.example");
});
