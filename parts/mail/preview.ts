import { escapeMarkup } from "../../gate/pipeline/response.ts";
import { KINDS, type MailValues } from "./kinds.ts";
import type { Templates } from "./templates.ts";

const TOKEN = "JmI1c2Y0ZGZ3ZXJ3ZXJ0ZXJ0ZXJ0ZXJ0ZXJ0ZXJ0ZXI";
const URL = "https://api.example.com";

const SAMPLE: MailValues = {
  email: "ann@example.com",
  service: "api.example.com",
  url: URL,
  link: `${URL}/auth/link?token=${TOKEN}`,
  token: TOKEN,
  code: "493021",
  minutes: "60",
  tokenHash: TOKEN,
  type: "email",
  redirectTo: "https://app.example.com/welcome",
  newEmail: "eve@example.com",
  time: "2026-11-24 08:00 UTC",
  address: "203.0.113.7",
  device: "Firefox on Linux",
};

/** A page with every e-mail, in every language that has templates. */
export function previewPage(templates: Templates): string {
  const mails = templates.languages.flatMap((folder) =>
    KINDS.map((kind) => ({ folder, kind, ...templates.render(kind, [folder], SAMPLE) })).filter(
      ({ folder, language }) => folder === "" || language === folder,
    ),
  );
  const sections = mails.map(
    ({ kind, language, subject, text, html }) => `<section>
<h2>${kind} (${escapeMarkup(language)}): ${escapeMarkup(subject)}</h2>
<iframe title="${kind} (${escapeMarkup(language)})" sandbox srcdoc="${escapeMarkup(html)}"></iframe>
<pre>${escapeMarkup(text)}</pre>
</section>`,
  );
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>E-mails</title>
<style>
:root { color-scheme: light dark }
body { margin: 0 auto; max-width: 60rem; padding: 1rem; font: 1rem/1.5 system-ui, sans-serif }
iframe { width: 100%; height: 26rem; border: 1px solid }
pre { white-space: pre-wrap; overflow-wrap: anywhere; border: 1px solid; padding: 1rem }
</style>
</head>
<body>
<h1>E-mails</h1>
${sections.join("\n")}
</body>
</html>
`;
}
