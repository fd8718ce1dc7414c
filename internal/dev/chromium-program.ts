import { existsSync } from 'node:fs'
import { canInstallPackages, installPackage } from './apt.ts'
import { StoreStartError } from './start-error.ts'

const names = ['chromium', 'chromium-browser', 'google-chrome', 'google-chrome-stable']
const macPath = '/Applications/Google Chrome.app/Contents/MacOS/Google Chrome'

/**
 * Finds the browser that tests drive: the one that `CHROMIUM` names, else Chromium or Chrome on the PATH. Where there is none: as root
 * on Debian and its kin it is installed with apt; elsewhere the error names the command. Safe to repeat.
 * @throws StoreStartError
 */
export async function ensureChromium(onProgress?: (line: string) => void): Promise<string> {
  const named = process.env['CHROMIUM']
  if (named) {
    if (existsSync(named)) return named
    throw new StoreStartError(
      `There is no program ${named}: set CHROMIUM to the path of Chromium, or unset it`,
    )
  }
  const found = findChromium()
  if (found !== undefined) return found
  if (canInstallPackages()) {
    await installPackage('Chromium', 'chromium', onProgress)
    const installed = findChromium()
    if (installed !== undefined) return installed
  }
  throw new StoreStartError(
    `The dashboard's tests need Chromium or Chrome, and neither is on the PATH. Install it:\n  ${installCommand()}\nor set CHROMIUM to its path.`,
  )
}

function findChromium(): string | undefined {
  const onPath = names.map((name) => Bun.which(name)).find((path) => path !== null)
  return onPath ?? (existsSync(macPath) ? macPath : undefined)
}

function installCommand(): string {
  if (process.platform === 'darwin') return 'brew install --cask chromium'
  return Bun.which('apt-get') ? 'sudo apt-get install chromium' : 'the package chromium of your system'
}
