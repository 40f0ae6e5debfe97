import { SafeError } from "postgraphile/grafast";

export const DEFAULT_PAGE_SIZE = 10;

/** What `first` or `limit` asks for: 10 when it says nothing; refused below zero and above `max`, which is at least 10. */
export function pageSize(name: string, max: number): (value: unknown) => number {
  const most = Math.max(max, DEFAULT_PAGE_SIZE);
  return (value) => {
    const wanted = (value as number | null | undefined) ?? DEFAULT_PAGE_SIZE;
    if (wanted >= 0 && wanted <= most) return wanted;
    throw new SafeError(`${name} must be from 0 to ${most}`, { code: "VALIDATION_ERROR" });
  };
}

/** What `offset` asks for: 0 when it says nothing; refused below zero. */
export const pageOffset = (value: unknown) => {
  const wanted = (value as number | null | undefined) ?? 0;
  if (wanted >= 0) return wanted;
  throw new SafeError("offset must not be negative", { code: "VALIDATION_ERROR" });
};

declare global {
  namespace GraphileBuild {
    interface SchemaOptions {
      /** The most that `first` and `limit` may ask for. */
      maxPageSize?: number;
    }
  }
}
