import { SafeError } from "postgraphile/grafast";

export const DEFAULT_PAGE_SIZE = 10;

/** What `first` or `limit` asks for: 10 when it says nothing; refused below zero and above `max`. */
export const pageSize = (name: string, max: number) => (value: unknown) => {
  const wanted = (value as number | null | undefined) ?? DEFAULT_PAGE_SIZE;
  if (wanted >= 0 && wanted <= max) return wanted;
  throw new SafeError(`${name} must be from 0 to ${max}`, { code: "VALIDATION_ERROR" });
};

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
