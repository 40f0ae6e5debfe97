import { type Html, html } from "./html.ts";

/** Each icon is one path in a square of 24, drawn with lines. */
const PATHS = {
  access: "M12 3l8 3v6c0 4.5-3.2 7.6-8 9-4.8-1.4-8-4.5-8-9V6zM9 12l2 2 4-4",
  activity: "M3 12h4l3-8 4 16 3-8h4",
  api: "M8 4H7a2 2 0 0 0-2 2v4l-2 2 2 2v4a2 2 0 0 0 2 2h1M16 4h1a2 2 0 0 1 2 2v4l2 2-2 2v4a2 2 0 0 1-2 2h-1",
  changes: "M12 12h.01M8.5 8.5a5 5 0 0 0 0 7M15.5 8.5a5 5 0 0 1 0 7M5.6 5.6a9 9 0 0 0 0 12.8M18.4 5.6a9 9 0 0 1 0 12.8",
  console: "M3 5h18v14H3zM7 10l2.5 2.5L7 15M12.5 15H16",
  data: "M3 5h18v14H3zM3 10h18M3 14.5h18M9 10v9",
  events: "M12 3a9 9 0 1 0 0 18 9 9 0 0 0 0-18zM12 7.5V12l3 2",
  graph: "M12 3l7.8 4.5v9L12 21l-7.8-4.5v-9zM12 3l7.8 13.5H4.2z",
  health: "M12 20s-8-4.6-8-10.5A4.5 4.5 0 0 1 12 7a4.5 4.5 0 0 1 8 2.5C20 15.4 12 20 12 20z",
  live: "M4 18a9 9 0 1 1 16 0M12 15l4-5M12 15h.01",
  mail: "M3 6h18v12H3zM3 7l9 6 9-6",
  resources: "M4 4h7v7H4zM13 4h7v7h-7zM4 13h7v7H4zM13 13h7v7h-7z",
  schema: "M3 4h7v6H3zM14 14h7v6h-7zM6.5 10v7H14",
  try: "M7 4.500l12 7.5-12 7.500z",
  users:
    "M9 4a3.5 3.5 0 1 0 0 7 3.5 3.5 0 0 0 0-7zM3 20c0-3.5 2.5-5.5 6-5.500s6 2 6 5.500M16 4.500a3.5 3.5 0 0 1 0 6.500M18 15c2 .8 3 2.5 3 5",
  why: "M12 3a9 9 0 1 0 0 18 9 9 0 0 0 0-18zM9.5 9.500a2.5 2.5 0 1 1 3.6 2.300c-.8.4-1.1 1-1.1 1.700M12 16.500h.01",
} as const;

export type IconName = keyof typeof PATHS;

/** It stands beside a text that says the same, so that screen readers skip it. */
export const icon = (name: IconName): Html =>
  html`<svg class="icon" width="20" height="20" viewBox="0 0 24 24" aria-hidden="true"><path d="${PATHS[name]}"/></svg>`;
