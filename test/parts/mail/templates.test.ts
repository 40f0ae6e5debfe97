import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import { outcomeOf } from "../../../cli/command.ts";
import { openParts } from "../../../cli/open-parts.ts";
import { KINDS, type MailValues } from "../../../parts/mail/kinds.ts";
import { mail } from "../../../parts/mail/mail.ts";
import { Templates } from "../../../parts/mail/templates.ts";
import { languagesOf } from "../../../rest-gateway/conventions/languages.ts";
import { configure } from "../../support/config.ts";

const VALUES: MailValues = {
  ...{ email: "a&b@test.example", service: "api.test.example", url: "https://api.test.example", minutes: "60" },
  ...{ link: "https://api.test.example/auth/link?token=t", token: "t", code: "493021", newEmail: "c@test.example" },
  ...{ tokenHash: "t", type: "recovery", redirectTo: "https://app.test.example/welcome" },
  ...{ time: "2026-11-24 08:00 UTC", address: "203.0.113.7", device: "Firefox on Linux" },
};

/** A folder with these files, which is deleted after the test. */
function folderOf(files: Readonly<Record<string, string>>): string {
  const folder = mkdtempSync(join(tmpdir(), "mail-"));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  for (const [name, text] of Object.entries(files)) {
    mkdirSync(join(folder, name, ".."), { recursive: true });
    writeFileSync(join(folder, name), text);
  }
  return folder;
}

test("each e-mail has a subject, a text and an HTML part without unfilled places", () => {
  for (const kind of KINDS) {
    const { subject, text, html } = new Templates(null).render(kind, [], VALUES);
    expect([subject, text.length > 50]).toEqual([expect.stringMatching(/^\S.+$/), true]);
    expect(html).toContain(`<h1>${subject}</h1>`);
    expect(subject + text + html).not.toMatch(/[{}]{2}/);
  }
});

test("the templates of an application replace those of the service, one by one", () => {
  const templates = new Templates(
    folderOf({
      "layout.html": "<body>{{content}}<i>{{service}}</i></body>",
      "reset.txt": "Hello {{email}}\n\nOpen it:\n\n{{link}}\n",
      "no-account.html": "<b>{{email}}</b>",
    }),
  );
  const reset = templates.render("reset", [], VALUES);
  expect([reset.subject, reset.text]).toEqual([
    "Hello a&b@test.example",
    "Open it:\n\nhttps://api.test.example/auth/link?token=t\n",
  ]);
  expect(reset.html).toBe(
    '<body><p>Open it:</p>\n<p><a class="button" href="https://api.test.example/auth/link?token=t">Hello a&#38;b@test.example</a></p>\n' +
      '<p class="link">https://api.test.example/auth/link?token=t</p><i>api.test.example</i></body>',
  );
  const other = templates.render("no-account", [], VALUES);
  expect([other.subject, other.html]).toEqual([
    "There is no account with this address",
    "<body><b>a&#38;b@test.example</b><i>api.test.example</i></body>",
  ]);
});

test("a value that looks like a place stays as it is, and a line break cannot get into the subject", () => {
  const templates = new Templates(folderOf({ "reset.txt": "To {{email}}\n\n{{email}}" }));
  const { subject, text, html } = templates.render("reset", [], { ...VALUES, email: "{{token}}\r\nBcc: eve" });
  expect(subject).toBe("To {{token}} Bcc: eve");
  expect(text).toContain("{{token}}");
  expect(html).toContain("{{token}}");
});

test("the language is the first one that has the template", () => {
  const templates = new Templates(folderOf({ "de/reset.txt": "Neues Passwort\n\nHier: {{link}}" }));
  const rendered = (languages: readonly string[], kind: "reset" | "no-account" = "reset") => {
    const { language, subject } = templates.render(kind, languages, VALUES);
    return [language, subject];
  };
  expect(rendered(["fr", "de"])).toEqual(["de", "Neues Passwort"]);
  expect(rendered(["en", "de"])).toEqual(["en", "Reset your password"]);
  expect(rendered(["de"], "no-account")).toEqual(["en", "There is no account with this address"]);
  expect(rendered([])).toEqual(["en", "Reset your password"]);
});

test.each([
  [undefined, []],
  ["pt-BR,pt;q=0.9,en;q=0.8", ["pt-br", "pt", "en"]],
  ["en;q=0.1, de", ["de", "en"]],
  ["de;q=0, *", []],
  ["../../etc, de/../x, fr", ["fr"]],
  ["a1,".repeat(20), []],
  ["aa,bb,cc,dd,ee,ff", ["aa", "bb", "cc", "dd", "ee"]],
])("Accept-Language: %s", (header, languages) => expect(languagesOf(header)).toEqual(languages));

describe("a template that is not valid is named", () => {
  test.each([
    [{ "restet.txt": "A\n\nB" }, "mail/restet.txt is not a template: the names are confirm,"],
    [{ "reset.txt": "A\n\n{{name}}" }, "mail/reset.txt names {{name}}: the values are {{email}},"],
    [{ "de/reset.html": "{{content}}" }, "mail/de/reset.html names {{content}}"],
    [{ "reset.txt": "Only a subject" }, "mail/reset.txt must have a subject in its first line"],
    [{ "layout.html": "<p>" }, "mail/layout.html must have {{content}}"],
  ])("%j", (files, message) => expect(() => new Templates(folderOf(files))).toThrow(message));
});

describe("content-service mail preview", () => {
  const preview = (folder: string, args = ["preview"]) => mail(args, { APPLICATION: folder });

  test("renders every e-mail in every language to a page", async () => {
    const folder = folderOf({
      "content-service.config.ts": "export default {};",
      "mail/de/reset.txt": "Neues Passwort\n\nHier: {{link}}",
    });
    const page = await preview(folder);
    for (const kind of KINDS) expect(page).toContain(`<h2>${kind} (en): `);
    expect(page).toContain("<h2>reset (de): Neues Passwort</h2>");
    expect(page.match(/<iframe /g)!.length).toBe(KINDS.length + 1);
  });

  test("refuses a template that is not valid, and other commands", async () => {
    const folder = folderOf({ "content-service.config.ts": "export default {};", "mail/reset.txt": "{{x}}\n\nB" });
    expect(await outcomeOf(preview(folder))).toMatchObject({ exitCode: 2, stderr: expect.stringContaining("{{x}}") });
    await expect(preview(folder, ["send"])).rejects.toMatchObject({ exitCode: 2 });
    expect(await preview(folder, ["--help"])).toContain("mail preview");
  });
});

test("a template of the application that is not valid is found with the parts, before the database is opened", async () => {
  const APPLICATION = folderOf({ "content-service.config.ts": "export default {};" });
  mkdirSync(join(APPLICATION, "mail"));
  writeFileSync(join(APPLICATION, "mail/reset.txt"), "Only a subject");
  await expect(openParts(await configure({ environment: { APPLICATION } }))).rejects.toThrow(
    "mail/reset.txt must have a subject in its first line, an empty line, and a text",
  );
  await expect(openParts(await configure({ environment: { APPLICATION, PARTS: "-mail" } }))).resolves.toBeDefined();
});
