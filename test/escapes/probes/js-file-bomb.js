// expect: limit
// kind: resource; why: a disk that fills up ends by its quota
const fs = require('fs')
try { for (let i = 0; ; i++) fs.writeFileSync(`f${i}`, Buffer.alloc(8 << 20, 1)) } catch (error) { if (/ENOSPC|EDQUOT|ENOMEM/.test(error.code)) console.log('CONTAINED'); else throw error }
