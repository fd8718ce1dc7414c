import { hostname } from 'node:os'

type Env = Readonly<Record<string, string | undefined>>

const charsMax = 200

/**
 * The user and host of this command, for the audit. Where the environment names no user, the system is asked; a container's user
 * may have no name there either, and is its number then.
 */
export function whoRuns(env: Env = process.env): string {
  // Bun 1.4.5's os.userInfo() reads USER alone, and says "unknown" without it.
  const name =
    env['USER'] || env['LOGNAME'] || nameOfUser() || `uid ${process.getuid?.() ?? 'without number'}`
  return `${name}@${hostname()}`.slice(0, charsMax)
}

/** '' where the system has no name for this process' user, or no program to say it. */
function nameOfUser(): string {
  const program = Bun.which('id')
  return program === null ? '' : Bun.spawnSync([program, '-un'], { timeout: 1_000 }).stdout.toString().trim()
}
