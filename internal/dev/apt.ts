import { StoreStartError } from './start-error.ts'

/** Whether packages can be installed without asking anybody: as root, on Debian and its kin. */
export function canInstallPackages(): boolean {
  return process.getuid?.() === 0 && Bun.which('apt-get') !== null
}

/**
 * Installs a package with apt, after the package lists where they are stale. `title` names it for the person at the terminal.
 * @throws StoreStartError with the command that shows why
 */
export async function installPackage(
  title: string,
  name: string,
  onProgress?: (line: string) => void,
): Promise<void> {
  onProgress?.(`${title}: not found, installing Debian's package ${name} (apt-get)`)
  if (await apt('install', '-y', '--no-install-recommends', name)) return
  onProgress?.(`${title}: refreshing the package lists (apt-get update)`)
  await apt('update')
  if (!(await apt('install', '-y', '--no-install-recommends', name)))
    throw new StoreStartError(`apt-get could not install ${name}; run apt-get install ${name} to see why`)
}

/** What else of this project installs something waits here: apt-get waits for others that install, but not for their lists. */
const lock = ['flock', '-w', '600', '/var/cache/apt/latchkey.lock']

async function apt(...args: string[]): Promise<boolean> {
  const child = Bun.spawn(
    [...(Bun.which('flock') ? lock : []), 'apt-get', '-q', '-o', 'DPkg::Lock::Timeout=120', ...args],
    {
      env: { ...process.env, DEBIAN_FRONTEND: 'noninteractive' },
      stdin: 'ignore',
      stdout: 'ignore',
      stderr: 'ignore',
    },
  )
  return (await child.exited) === 0
}
