import { describe } from "vitest";
import { testFactors } from "./factors.ts";

describe("supabase.auth.mfa", () => testFactors("bigint"));
