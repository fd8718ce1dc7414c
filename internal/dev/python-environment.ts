import { existsSync } from 'node:fs'
import { mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { lockFolder } from './folder-lock.ts'
import { StoreStartError } from './processes.ts'
import { ensurePython } from './programs.ts'

const kept = resolve(import.meta.dir, '../../.latchkey/python')
const installMsMax = 300_000
/** Maximum wait for another process that installs an environment: two commands of at most `installMsMax` each. */
const waitMsMax = 2 * installMsMax

/**
 * Returns the folder of a virtual environment with the packages of a requirements file, which contains a hash for each package. Creates the
 * environment with Python 3 and pip if it does not exist, and removes environments of earlier requirements. Repeating the call is safe, and
 * fast after the environment exists. Processes that call it at the same time install one after the other.
 * @throws StoreStartError with a remedy
 */
export async function ensurePythonEnvironment(
  requirements: string,
  onProgress?: (line: string) => void,
): Promise<string> {
  const python = await ensurePython(onProgress)
  const version = Bun.spawnSync([python, '-VV']).stdout.toString()
  const hash = new Bun.CryptoHasher('sha256').update(version).update(await readFile(requirements))
  const folder = join(kept, hash.digest('hex').slice(0, 16))
  // The stamp is written last, so that an interrupted installation is repeated.
  const stamp = join(folder, 'latchkey-stamp')
  if (existsSync(stamp)) return folder
  await mkdir(kept, { recursive: true })
  const locked = lockFolder(kept, waitMsMax)
  if (locked.kind === 'taken')
    throw new StoreStartError(
      `Process ${locked.pid} is still installing Python packages in ${kept}: try again when it has ended`,
    )
  try {
    // Another process may have installed the environment during the wait.
    if (existsSync(stamp)) return folder
    onProgress?.('Python: installing the packages of the client tests (pip)')
    await install(python, folder, requirements)
    await writeFile(stamp, '')
    return folder
  } finally {
    locked.lock.release()
  }
}

/** Removes the environments of earlier requirements, and creates the one in `folder`. */
async function install(python: string, folder: string, requirements: string): Promise<void> {
  const entries = await readdir(kept, { withFileTypes: true })
  const old = entries.filter((each) => each.isDirectory())
  for (const { name } of old) await rm(join(kept, name), { recursive: true, force: true })
  await run([python, '-m', 'venv', folder])
  const pip = [
    '-m',
    'pip',
    '--disable-pip-version-check',
    '--no-input',
    'install',
    '--quiet',
    '--require-hashes',
  ]
  await run([join(folder, 'bin', 'python'), ...pip, '--no-deps', '--requirement', requirements])
}

async function run(command: readonly string[]): Promise<void> {
  const child = Bun.spawn([...command], {
    stdio: ['ignore', 'pipe', 'pipe'],
    timeout: installMsMax,
  })
  const texts = await Promise.all([child.stdout.text(), child.stderr.text()])
  if ((await child.exited) !== 0) throw new StoreStartError(`${command.join(' ')} failed:\n${texts.join('')}`)
}
