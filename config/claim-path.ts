/** The path to one claim of a token: keys of objects and indexes of arrays. */
export type ClaimPath = readonly (string | number)[];

const STEP = /\.(?:([\w$@-]+)|"([^"]+)")|\[(\d{1,6})\]/y;

/**
 * Parses a dotted path, or PostgREST's form with a leading dot and quoted names. Null when it is neither.
 *
 *   parseClaimPath("app.role")                     // ["app", "role"]
 *   parseClaimPath(".roles[0]")                    // ["roles", 0]
 *   parseClaimPath('."https://example.com/role"')  // ["https://example.com/role"]
 * Source: PostgREST docs, "Configuration", jwt-role-claim-key.
 */
export function parseClaimPath(text: string): ClaimPath | null {
  const dotted = text.startsWith(".") ? text : `.${text}`;
  const path: (string | number)[] = [];
  STEP.lastIndex = 0;
  while (STEP.lastIndex < dotted.length) {
    const step = STEP.exec(dotted);
    if (step === null) return null;
    const [, name, quoted, index] = step;
    path.push(name ?? quoted ?? Number(index));
  }
  return path;
}

/** `claimAt({ roles: ["editor"] }, ["roles", 0])` → `"editor"`; undefined when the claim is absent. */
export function claimAt(claims: unknown, path: ClaimPath): unknown {
  return path.reduce((value: any, step) => {
    const holdsStep = typeof value === "object" && value !== null && Object.hasOwn(value, step);
    return holdsStep ? value[step] : undefined;
  }, claims);
}
