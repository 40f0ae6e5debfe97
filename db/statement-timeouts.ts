import type { Role } from "./catalog/catalog.ts";

/** Times in milliseconds; 0 means no limit. */
export type StatementTimeoutOptions = {
  readonly everyone: number;
  /** Does not exceed that of everyone. */
  readonly anonymous: number;
  /** The roles of callers without credentials. */
  readonly anonymousRoles: readonly string[];
};

/** How long a statement of each role may run. `alter role … set statement_timeout` takes precedence over the defaults. */
export class StatementTimeouts {
  #options: StatementTimeoutOptions;
  #roles: ReadonlyMap<string, Role> = new Map();
  #byRole: ReadonlyMap<string, number>;

  constructor(options: StatementTimeoutOptions) {
    this.#options = options;
    this.#byRole = new Map(this.#ofAnonymous());
  }

  /** Replaces the defaults. */
  limitTo(defaults: Pick<StatementTimeoutOptions, "everyone" | "anonymous">): void {
    this.#options = { ...this.#options, ...defaults };
    this.follow(this.#roles);
  }

  /** Milliseconds after which Postgres cancels a statement of the role; 0 means never. */
  of(role: string): number {
    return this.ofRole(role) ?? this.#options.everyone;
  }

  /** The same, or null if only the default for everyone applies to the role. */
  ofRole(role: string): number | null {
    return this.#byRole.get(role) ?? null;
  }

  /** Applies the settings of the roles in a new catalog. */
  follow(roles: ReadonlyMap<string, Role>): void {
    this.#roles = roles;
    this.#byRole = new Map([...this.#ofAnonymous(), ...ownTimeouts(roles)]);
  }

  /** Applies other roles of callers without credentials. */
  followAnonymous(anonymousRoles: readonly string[]): void {
    this.#options = { ...this.#options, anonymousRoles };
    this.follow(this.#roles);
  }

  #ofAnonymous(): readonly (readonly [role: string, milliseconds: number])[] {
    const { everyone, anonymous, anonymousRoles } = this.#options;
    const limits = [everyone, anonymous].filter((limit) => limit > 0);
    const shorter = limits.length === 0 ? 0 : Math.min(...limits);
    return anonymousRoles.map((role) => [role, shorter]);
  }
}

function* ownTimeouts(roles: ReadonlyMap<string, Role>): Generator<readonly [role: string, milliseconds: number]> {
  for (const { name, settings } of roles.values()) {
    const own = settings.find(([setting]) => setting === "statement_timeout");
    if (own) yield [name, millisecondsOf(own[1])];
  }
}

const UNITS: Readonly<Record<string, number>> = {
  us: 0.001,
  ms: 1,
  "": 1,
  s: 1000,
  min: 60_000,
  h: 3_600_000,
  d: 86_400_000,
};

/** `"3s"` → 3000, `"1.5 min"` → 90000, `"250"` → 250. Postgres has checked the value, and rounds to milliseconds. */
function millisecondsOf(setting: string): number {
  const [, amount, unit] = /^\s*(.*?)\s*([a-z]*)\s*$/.exec(setting)!;
  return Math.round(Number(amount) * UNITS[unit!]!);
}
