/* SPDX-License-Identifier: BSD-2-Clause */
#include "object.h"
#include "notes.h"
#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct file {
    const uint8_t *bytes;
    size_t size;
    const Elf64_Ehdr *header;
};

static const void *at(const struct file *file, uint64_t offset, uint64_t size)
{
    return offset <= file->size && size <= file->size - offset ? file->bytes + offset : NULL;
}

static const Elf64_Shdr *section(const struct file *file, int number)
{
    const uint64_t offset = file->header->e_shoff + (uint64_t)number * sizeof(Elf64_Shdr);
    return number < file->header->e_shnum ? at(file, offset, sizeof(Elf64_Shdr)) : NULL;
}

static const Elf64_Phdr *segment(const struct file *file, int number)
{
    const uint64_t offset = file->header->e_phoff + (uint64_t)number * sizeof(Elf64_Phdr);
    return number < file->header->e_phnum ? at(file, offset, sizeof(Elf64_Phdr)) : NULL;
}

static bool load_segments(const struct file *file, struct object *object)
{
    const Elf64_Phdr *header;
    for (int n = 0; (header = segment(file, n)); n++)
        if (header->p_type == PT_LOAD && header->p_vaddr + header->p_memsz > object->image_bytes)
            object->image_bytes = header->p_vaddr + header->p_memsz;
    if (!object->image_bytes || object->image_bytes > 1 << 28)
        return false;
    object->image = calloc(1, object->image_bytes);
    for (int n = 0; object->image && (header = segment(file, n)); n++) {
        const void *from = at(file, header->p_offset, header->p_filesz);
        if (header->p_type == PT_LOAD && from)
            memcpy(object->image + header->p_vaddr, from, header->p_filesz);
    }
    return object->image != NULL;
}

/* The address of a symbol, 0 where there is none. */
static uint64_t symbol_address(const struct file *file, const char *name)
{
    const Elf64_Shdr *table;
    for (int n = 0; (table = section(file, n)); n++) {
        const Elf64_Shdr *strings = section(file, (int)table->sh_link);
        const Elf64_Sym *symbols = at(file, table->sh_offset, table->sh_size);
        if (table->sh_type != SHT_DYNSYM || !strings || !symbols)
            continue;
        for (size_t i = 0; i < table->sh_size / sizeof *symbols; i++) {
            const char *text = at(file, strings->sh_offset + symbols[i].st_name, strlen(name) + 1);
            if (text && strcmp(text, name) == 0)
                return symbols[i].st_value;
        }
    }
    return 0;
}

/* The descriptor in memory: LLVM's guide to its AMDGPU back end, "Kernel Descriptor". */
static bool read_descriptor(const struct file *file, const struct object *object, struct object_kernel *kernel)
{
    char name[160];
    snprintf(name, sizeof name, "%s.kd", kernel->name);
    const uint64_t address = symbol_address(file, name);
    if (!address || address + 64 > object->image_bytes)
        return false;
    const uint8_t *descriptor = object->image + address;
    int64_t entry;
    uint16_t properties;
    memcpy(&kernel->code.local_bytes, descriptor, 4);
    memcpy(&kernel->code.private_bytes, descriptor + 4, 4);
    memcpy(&kernel->code.argument_bytes, descriptor + 8, 4);
    memcpy(&entry, descriptor + 16, 8);
    memcpy(&kernel->code.rsrc1, descriptor + 48, 4);
    memcpy(&kernel->code.rsrc2, descriptor + 52, 4);
    memcpy(&properties, descriptor + 56, 2);
    kernel->code.properties = properties;
    kernel->code.entry = address + (uint64_t)entry;
    kernel->code.name = kernel->name;
    return true;
}

bool object_read(const uint8_t *bytes, size_t size, struct object *object)
{
    const struct file file = {bytes, size, (const Elf64_Ehdr *)bytes};
    *object = (struct object){0};
    if (size < sizeof *file.header || memcmp(bytes, ELFMAG, SELFMAG) != 0 || !load_segments(&file, object))
        return false;
    const Elf64_Phdr *header;
    bool found = false;
    for (int n = 0; (header = segment(&file, n)); n++) {
        const uint8_t *notes = at(&file, header->p_offset, header->p_filesz);
        if (header->p_type == PT_NOTE && notes)
            found |= notes_read(notes, header->p_filesz, object);
    }
    for (int n = 0; found && n < object->kernels_count; n++)
        found = read_descriptor(&file, object, &object->kernels[n]);
    if (!found)
        object_free(object);
    return found;
}

void object_free(struct object *object)
{
    free(object->image);
    *object = (struct object){0};
}
