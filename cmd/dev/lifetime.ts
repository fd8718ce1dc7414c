import type { Scope } from '#internal/process/index.ts'

const parentCheckMs = 500

/**
 * Ends the dev server when its terminal goes, and when the process that started it is gone: npm killed outright tells
 * nobody, and the stores would run on unseen.
 */
export function endWithParent(scope: Scope): void {
  process.on('SIGHUP', () => scope.stop())
  const parent = process.ppid
  setInterval(() => {
    if (process.ppid !== parent) scope.stop()
  }, parentCheckMs).unref()
}
