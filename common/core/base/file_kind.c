#include "common/core/base/file_kind.h"

#include <string.h>

#define SAVE_AS_UTF8 "save it as UTF-8"

/* A longer beginning stands before a shorter one that it begins with. */
static const struct {
    const char *begin;
    size_t len;
    struct file_kind kind;
} file_kinds[] = {
    {"\x1f\x8b", 2, {"is compressed with gzip", "unpack it (gunzip)", true}},
    {"BZh", 3, {"is compressed with bzip2", "unpack it (bunzip2)", false}},
    {"\xfd"
     "7zXZ\0",
     6,
     {"is compressed with xz", "unpack it (unxz)", false}},
    {"\x28\xb5\x2f\xfd", 4, {"is compressed with zstd", "unpack it (unzstd)", false}},
    {"\x04\x22\x4d\x18", 4, {"is compressed with lz4", "unpack it (unlz4)", false}},
    {"7z\xbc\xaf\x27\x1c", 6, {"is a 7z archive", "unpack it (7z x)", false}},
    {"PK\x03\x04", 4, {"is a zip archive, as .zip, .xlsx, .npz and PyTorch's .pt are", "unpack or export it", false}},
    {"PK\x05\x06", 4, {"is an empty zip archive", "pack it again", false}},
    {"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", 8, {"is a document of an old Excel or Word", "export it as text", false}},
    {"\x89HDF\r\n\x1a\n", 8, {"is an HDF5 file, as Keras and MATLAB write them", "export it", false}},
    {"MATLAB 5.0 MAT-f", 16, {"is a MATLAB file", "export it (writematrix)", false}},
    {"\x93NUMPY", 6, {"is an array of NumPy", "export it (numpy.savetxt)", false}},
    {"PAR1", 4, {"is a Parquet file", "export it (to_csv)", false}},
    {"\xff\xfe\0\0", 4, {"is text in UTF-32", SAVE_AS_UTF8, false}},
    {"\0\0\xfe\xff", 4, {"is text in UTF-32", SAVE_AS_UTF8, false}},
    {"\xff\xfe", 2, {"is text in UTF-16", SAVE_AS_UTF8, false}},
    {"\xfe\xff", 2, {"is text in UTF-16", SAVE_AS_UTF8, false}},
    {"\x80\x02", 2, {"is a pickle of Python", "export it", false}},
    {"\x80\x03", 2, {"is a pickle of Python", "export it", false}},
    {"\x80\x04", 2, {"is a pickle of Python", "export it", false}},
    {"\x80\x05", 2, {"is a pickle of Python", "export it", false}},
};

const struct file_kind *
file_kind_find(const void *bytes, size_t n)
{
    for (size_t i = 0; i < ARRAY_LEN(file_kinds); i++)
        if (n >= file_kinds[i].len && memcmp(bytes, file_kinds[i].begin, file_kinds[i].len) == 0)
            return &file_kinds[i].kind;
    return NULL;
}

size_t
file_kind_mark(const void *bytes, size_t n)
{
    return n >= 3 && memcmp(bytes, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
}

enum ps_err
file_kind_check_text(const char *file, const void *bytes, size_t n, enum ps_err code, struct ps_error *e)
{
    const struct file_kind *kind = file_kind_find(bytes, n);

    return kind == NULL ? PS_OK : ps_fail(e, code, "%s %s: %s", file, kind->what, kind->remedy);
}
