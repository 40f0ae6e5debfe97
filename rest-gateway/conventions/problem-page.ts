import type { IncomingMessage } from "node:http";
import { frameOf, html, PAGE_POLICY } from "../../gate/pages/html.ts";

/** What a person reads about an error. */
export type ShownProblem = {
  readonly status: number;
  readonly code: string;
  readonly message: string;
  readonly hint?: string | undefined;
};

/** Whether a person has opened the URL in a browser, rather than a program or a script. Browsers set Sec-Fetch-Mode themselves. */
export function isOpened({ method, headers }: IncomingMessage): boolean {
  const { accept = "", "sec-fetch-mode": mode = "navigate" } = headers;
  return (method === "GET" || method === "HEAD") && mode === "navigate" && /\btext\/html\b/.test(accept);
}

export const PROBLEM_PAGE_HEADERS = [
  ["Content-Type", "text/html; charset=utf-8"],
  ["Content-Security-Policy", PAGE_POLICY],
] as const;

const TITLES: Readonly<Record<number, string>> = {
  401: "Sign in first",
  403: "Not allowed",
  404: "There is nothing here",
  429: "Too many requests",
  503: "Not available at the moment",
};

/** The page of an error. Programs get the same as JSON. */
export function problemPage({ status, code, message, hint }: ShownProblem, requestId: string, about: string): string {
  const title = TITLES[status] ?? (status >= 500 ? "Something went wrong" : "This did not work");
  const text = `${message.charAt(0).toUpperCase()}${message.slice(1).replace(/\.$/, "")}.`;
  return frameOf({
    title: `${title} – Content Service`,
    body: html`<body class="account">
<header class="plain"><a class="brand" href="/">Content Service</a></header>
<main class="card">
<p class="status">${status}</p>
<h1>${title}</h1>
<p>${text}</p>
${hint ? html`<p>${hint}</p>` : null}
<p><a class="button" href="/">To the start page</a></p>
<p class="hint">Error <a href="${about}"><code>${code}</code></a>, reference <code>${requestId}</code></p>
</main>
</body>`,
  });
}
