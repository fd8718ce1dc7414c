import { test } from 'bun:test'

/** Whether `npm run test:nightly` runs this file: then also its tests that found nothing in weeks and take minutes. */
export const isNightly: boolean = process.env['LATCHKEY_TEST_NIGHTLY'] === 'true'

/** Returns all cases of a table in the nightly run, else the first ones. */
export function usualCases<Case>(cases: readonly Case[], count: number): readonly Case[] {
  return isNightly ? cases : cases.slice(0, count)
}

/** Declares a test for the nightly run only. `npm run test:nightly` chooses the files that import this one. */
export function nightlyTest(name: string, work: () => void | Promise<void>, msMax?: number): void {
  if (isNightly) test(name, work, msMax)
}
