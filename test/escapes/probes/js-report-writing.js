// expect: contained
// kind: surface; why: diagnostic files are written as the user, where the user may write
process.report.directory = '/'; try { process.report.writeReport('report.json') } catch {}
process.report.directory = '/usr/lib/glovebox'; try { process.report.writeReport('report.json') } catch {}
for (const path of ['/report.json', '/usr/lib/glovebox/report.json']) if (require('fs').existsSync(path)) console.log('BREACH:', path)
const text = JSON.stringify(process.report.getReport())
if (/GLOVEBOX_|TOKEN|SECRET/.test(text)) console.log('BREACH: secrets in the report')
try { require('v8').writeHeapSnapshot('/usr/lib/x.heapsnapshot'); console.log('BREACH: a snapshot') } catch {}
console.log('CONTAINED')
