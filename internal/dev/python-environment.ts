import { existsSync } from 'node:fs'
import { mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { StoreStartError } from './processes.ts'
import { ensurePython } from './programs.ts'

const kept = resolve(import.meta.dir, '../../.latchkey')
const installMsMax = 300_000

/**
 * Returns the folder of a virtual environment with the packages of a requirements file, which contains a hash for each package. Creates the
 * environment with Python 3 and pip if it does not exist, and removes environments of earlier requirements. Repeating the call is safe, and
 * fast after the environment exists.
 * @throws StoreStartError with a remedy
 */
export async function ensurePythonEnvironment(
  requirements: string,
  onProgress?: (line: string) => void,
): Promise<string> {
  const python = await ensurePython(onProgress)
  const version = Bun.spawnSync([python, '-VV']).stdout.toString()
  const hash = new Bun.CryptoHasher('sha256').update(version).update(await readFile(requirements))
  const name = `python-${hash.digest('hex').slice(0, 16)}`
  const folder = join(kept, name)
  // Written last, so that an interrupted installation is repeated.
  const stamp = join(folder, 'latchkey-stamp')
  if (existsSync(stamp)) return folder
  onProgress?.('Python: installing the packages of the client tests (pip)')
  await mkdir(kept, { recursive: true })
  const old = (await readdir(kept)).filter((each) => each.startsWith('python-'))
  for (const each of old) await rm(join(kept, each), { recursive: true, force: true })
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
  await writeFile(stamp, '')
  return folder
}

async function run(command: readonly string[]): Promise<void> {
  const child = Bun.spawn([...command], {
    stdio: ['ignore', 'pipe', 'pipe'],
    timeout: installMsMax,
  })
  const texts = await Promise.all([child.stdout.text(), child.stderr.text()])
  if ((await child.exited) !== 0) throw new StoreStartError(`${command.join(' ')} failed:\n${texts.join('')}`)
}
